package retryqueue

import (
	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr"
)

// judge returns what err means to a message.
func judge(p retry.Policy, err error) retry.Verdict {
	v := p.Judge(err)
	if v.Class != retry.Permanent {
		return v
	}
	p.Classify = retry.Classifiers(p.Classify, Patient)
	return p.Judge(err)
}

// Patient is a [retry.Classifier] for work that can wait for hours. Of the errors that
// [retry.DefaultClassifier] calls permanent it calls those Transient for which the
// message is not to blame: a name that is not found, a certificate that has expired, a
// key that was changed (401, 403), a route or a table that is not there yet, an answer
// that package retryhttp could not use, such as a maintenance page. People
// mend these, and the message is still there.
//
// It has no opinion, so that DefaultClassifier decides, on all other errors, on which
// the message founders again:
//
//   - HTTP 400, 404, 409, 410, 412 to 416, 422 and 431, also AWS's unless its code is about
//     access, keys, signatures or clocks, or is ResourceNotFoundException;
//   - a request that net/http refuses to send, such as one with a line end in a header;
//   - INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS and OUT_OF_RANGE of gRPC, Connect, Twirp;
//   - SQLSTATE classes 21 (cardinality), 22 (data), 23 (constraint), 44 (check option) and 54
//     (program limits), and P0001 to P0003 (raised, no row, several rows);
//   - JSON-RPC -32700, -32600, -32602, -32003 and 3;
//   - what other vendors say of the content of a call, such as too long, a duplicate key or a wrong
//     value: the codes with "message" in the tables of internal/clienterr/oracle;
//   - a malformed body or number, of encoding/json, encoding/xml or strconv. One that ends too
//     early may come from a broken connection, and is tried again;
//   - the error of a run that a mark has ended, or NonIdempotent, or a Classify that calls
//     an error permanent which DefaultClassifier does not.
//
// A [Delivery] calls Patient for what Policy.Classify does not know. If it is not to
// do that, set Classify to DefaultClassifier.
func Patient(err error) retry.Class {
	f := clienterr.Judge(err)
	if retry.Class(f.Class()) != retry.Permanent || f.Is(clienterr.Blames) {
		return retry.Unknown
	}
	return retry.Transient
}
