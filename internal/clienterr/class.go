package clienterr

// Class is a class of package retry, with the same number.
type Class uint8

// The classes.
const (
	Unknown Class = iota
	Permanent
	Transient
	TimedOut
	Throttled
	Unprocessed
)

// Status judges an HTTP status. hinted says that the response asks for a wait: with
// one, a 403 is what GitHub's rate limit says. With 408 a server has waited for the
// request (RFC 9110, section 15.5.9), with 504 a gateway for a server that may still
// be at work (15.6.5), and with 524 so has Cloudflare's. A 503 proves nothing, not even with a wait: a gateway may
// answer so to a request that ran.
func Status(code int, hinted bool) Class {
	switch {
	case code == 429, code == 403 && hinted:
		return Throttled
	case code == 408, code == 425, code == 500, code == 502, code == 503:
		return Transient
	case code == 504, code == 524:
		return TimedOut
	case code == 421:
		return Unprocessed
	case code == 501, code == 505, code/100 == 4:
		return Permanent
	}
	return Unknown
}

// GRPC judges a status code of gRPC. A code is no proof that nothing happened.
func GRPC(code int64) Class {
	switch code {
	case 0: // OK
		return Unknown
	case 4: // DEADLINE_EXCEEDED
		return TimedOut
	case 8: // RESOURCE_EXHAUSTED
		return Throttled
	case 14: // UNAVAILABLE
		return Transient
	}
	return Permanent
}

// MySQL judges the number of an error from MySQL or MariaDB.
func MySQL(number int64) Class { return mysql.class(number) }

// AWS judges the code of an error from an AWS service, or from one that speaks the
// protocol of S3.
func AWS(code string) Class { return aws.class(code) }
