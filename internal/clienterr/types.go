package clienterr

import "strings"

// A kind says what a path leads to. The generator of tables.go has them in this order.
type kind uint8

const (
	inCode     kind = iota + 1 // a code of the rule's table
	inHTTP                     // an HTTP status
	inSeconds                  // how long to wait: seconds, or a time.Duration
	inMillis                   // how long to wait: milliseconds
	inHeader                   // an http.Header
	inError                    // an error that says it all
	tooMany                    // a time.Time to wait for, of an error that is a 429 by its type
	always                     // nowhere: each error of the type means the same
	connecting                 // nowhere: the error of a connection that did not come about

	// The next need more than a code.
	inConnect    // and whether the server said so
	inLibrdkafka // and whether the client is at its end, and the error passes
	inKafka      // and whether the error passes
	inRedis      // nowhere: the text is judged
	inToken      // nowhere: errors of getting a token, which are about the caller's own credentials
	inFacts      // Facts: an error of this module has read the response
	inQUIC       // an alert of TLS from 0x100 on
	inMySQL      // and a SQLSTATE
	inMSSQL      // and a class of severity
	inSQLite     // extended codes have the primary one in their lowest byte
	inDynamoDB   // reasons of a transaction that was canceled
	inKerberos   // nowhere: the text has a code
	inURN        // the code is behind the last colon
	inSyntax     // nowhere: the text says whether the input has ended too early

	inWords // a code in words of a type that has no rule
)

// A rule says what the errors of a type say. A path is names of fields with dots
// between them, which may be unexported; of several paths, with a blank between
// them, the first that exists counts. [] is each element of a slice: the first that
// means something counts.
type rule struct {
	kind  kind
	path  string // of what kind judges
	table *table
	facts Facts // always
}

// rulesFor returns the rules for a type, from ruleLines. They are those of oracle/types.txt, each kind as a letter, and
// its table, or its facts, as a character. A type may have several: of codes the first that means something counts. What
// a rule does not say is read from its errors as from those of any other type.
func rulesFor(pkg, name string) (found []rule) {
	pkg = withoutVersions(pkg)
	for line, more := "", ruleLines; more != ""; {
		line, more, _ = strings.Cut(more, "\n")
		pkgs, line, _ := strings.Cut(line, "\t")
		names, line, _ := strings.Cut(line, "\t")
		if !oneOf(pkgs, pkg) || names != "" && !oneOf(names, name) {
			continue
		}
		for line != "" {
			var r string
			r, line, _ = strings.Cut(line, "\t")
			found = append(found, parseRule(r))
		}
	}
	return found
}

// parseRule reads a rule of ruleLines.
func parseRule(r string) rule {
	to := rule{kind: kind(r[0] - 'a'), path: r[2:]}
	if n := r[1] - '!'; to.kind == always {
		to.facts = Facts(n)
	} else {
		to.table = tables[n]
	}
	return to
}

// oneOf reports whether word is one of several words with blanks between them.
func oneOf(words, word string) bool {
	for more := true; more; {
		var w string
		if w, words, more = strings.Cut(words, " "); w == word {
			return true
		}
	}
	return false
}

// withoutVersions returns the path of a package without the parts that name a major
// version, such as the v5 in github.com/neo4j/neo4j-go-driver/v5/neo4j/db. There is
// no v1 in such a path, unless it has another meaning.
func withoutVersions(path string) (short string) {
	for more := path != ""; more; {
		var part string
		part, path, more = strings.Cut(path, "/")
		version, ok := strings.CutPrefix(part, "v")
		if !ok || version == "1" || !isNumber(version) {
			short += "/" + part
		}
	}
	return strings.TrimPrefix(short, "/")
}

// isNumber reports whether s is digits.
func isNumber(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}
