package clienterr

// Facts are what a code, or an error, means. The zero Facts say nothing.
type Facts uint16

// The lowest bits are the Class. The generator of tables.go knows these numbers.
const (
	classBits Facts = 7

	// Renewed says that a new session mends a permanent error: a connection, a cursor, a
	// token, a lease, a member of a group. retry.Supervise begins one, and so does a transaction.
	Renewed Facts = 1 << 3

	// Blames says that the content of the call is at fault: it fails in the same way whatever
	// becomes of the network, of the server and of the caller's rights.
	Blames Facts = 1 << 4

	// RolledBack says that the server has rolled back the transaction.
	RolledBack Facts = 1 << 5

	// Demoted says that the server takes no writes: a new connection may lead to the one that
	// took its place.
	Demoted Facts = 1 << 6

	// Refuses says that the server asked for no retry of what would be repeated otherwise.
	Refuses Facts = 1 << 7

	// Answered says that package retryhttp took the response for an answer, without a mark.
	Answered Facts = 1 << 8 // in no table, whose facts have eight bits
)

// Class returns the class to an operation that is called again.
func (f Facts) Class() Class { return Class(f & classBits) }

// Is reports whether fact, one of Renewed, Blames, RolledBack, Demoted, Refuses and Answered, is true.
func (f Facts) Is(fact Facts) bool { return f&fact != 0 }
