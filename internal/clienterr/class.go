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

// Alert judges the alert with which a peer ended the TLS handshake, by the codes of
// RFC 8446, section 6.
func Alert(code uint64) Class {
	switch code {
	case 40, 42, 43, 44, 45, 46, 48, 70, 120:
		// handshake_failure, bad_certificate, unsupported_certificate, certificate_revoked, certificate_expired,
		// certificate_unknown, unknown_ca, protocol_version, no_application_protocol
		return Permanent
	case 80: // internal_error
		return Transient
	}
	return Unknown
}

// JSONRPC judges an error code of JSON-RPC: those of the specification (section 5.1), 3 and
// -32005 of Ethereum (execution reverted, and limit exceeded by EIP-1474). An internal
// error, and most codes of servers, say nothing.
func JSONRPC(code int) Class {
	switch code {
	case -32700, -32600, -32601, -32602, 3:
		return Permanent
	case -32005:
		return Throttled
	}
	return Unknown
}

// MySQL judges the number of an error from MySQL or MariaDB.
func MySQL(number int64) Class { return mysql.class(number) }

// AWS judges the code of an error from an AWS service, or from one that speaks the
// protocol of S3.
func AWS(code string) Class { return aws.class(code) }
