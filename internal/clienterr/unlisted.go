package clienterr

import (
	"reflect"
	"strings"
)

// This file reads errors of types that nobody has listed, by what those of many vendors have in
// common: a code in words, such as RequestLimitExceeded, KDC_ERR_POLICY or not_found, which words.go
// judges. A test forgets one vendor after the other and reads its errors in this
// way: what must not be repeated is never called anything else.

// isOpen reports whether the errors of a type without a rule are read so. This module's have other
// errors in them, and say themselves what they are.
func isOpen(t reflect.Type) bool {
	t = pointed(t)
	return t.Name() != "" && !standard(t.PkgPath()) && !strings.HasPrefix(t.PkgPath()+"/", "github.com/goretry/retry/")
}

// standard reports whether a package is of the standard library, or "", of a predeclared type.
func standard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return first != "main" && !strings.Contains(first, ".")
}

// Names of fields, in small letters and with blanks around them.
const (
	namesOfWords    = " code errorcode errcode subcode errorname errname type errortype class kind reason status condition err error "
	namesOfStatuses = " status statuscode _statuscode httpstatus httpstatuscode httpcode code errorcode errcode "
	namesOfPassing  = " retryable retriable isretryable temporary istemporary transient istransient "
	namesOfStates   = " sqlstate "
)

// findOpen finds what field f at a path may say. in says that it is in a part of the error. part
// reports whether f is one, whose codes count too.
func (k *Type) findOpen(f *reflect.StructField, at path, in bool) (part bool) {
	name := []byte(" " + f.Name + " ")
	for i := range name {
		name[i] = lowered(name[i])
	}
	is := func(names string) bool { return strings.Contains(names, string(name)) }
	of := pointed(f.Type)
	code, codes := coded{path: at}, &k.words
	switch kind := of.Kind(); {
	case is(namesOfStates):
		code.kind, code.table, codes, k.database = inCode, &sqlstateCodes, &k.codes, true
	case kind == reflect.Slice:
		if code.each, _ = fieldOf(of.Elem(), "Code"); code.each != nil {
			code.kind = inWords
		}
	case kind == reflect.Struct:
		return strings.Contains(string(name), "err") || strings.Contains(string(name), "resp") || strings.Contains(string(name), "detail")
	case kind == reflect.Bool && is(namesOfPassing):
		k.again = append(k.again, at)
	case (kind == reflect.String || kind == reflect.Interface || implements(f.Type, (*interface{ String() string })(nil))) && is(namesOfWords):
		code.kind = inWords
	}
	if code.kind != 0 {
		*codes = append(*codes, code)
	}
	if !in && is(namesOfStatuses) {
		k.shown = append(k.shown, at) // or a text, which is no number
	}
	return false
}

// guess adds to a what errors of any vendor may say.
func (k *Type) guess(a *Answer, err error) {
	v := reflect.ValueOf(err)
	for i := range k.words {
		if a.Guess = k.words[i].factsOf(v, 0); a.Guess != 0 {
			break
		}
	}
	if a.Status == 0 {
		text := textOf(err)
		switch status, own := k.statusIn(text, v); {
		case own:
			a.Status = status
			k.readHeader(a, v)
		case status != 0: // what it wraps may say more
			a.Guess = Answer{Beside: Beside{Guess: a.Guess}, Status: status}.OfStatus()
			if a.Guess.Class() == Unprocessed { // a text proves nothing
				a.Guess = Facts(Transient)
			}
			return
		case a.Guess == 0:
			a.Guess = constants(text)
			return
		default:
			return
		}
	}
	if a.Guess.Class() <= Permanent && k.saysAgain(err, v) {
		a.Guess = Facts(Transient)
	}
}

// OfStatus returns what the status of an answer means with the words beside it.
func (a Answer) OfStatus() Facts {
	f := Status(a.Status, a.Hint != 0 || a.Timed)
	switch guess := a.Guess.Class(); f.Class() {
	case Permanent:
		if guess > Permanent { // as Alibaba's 400 with Throttling
			return a.Guess
		}
	case Transient, TimedOut:
		if guess == Throttled {
			return a.Guess
		}
	case Throttled:
		if guess == Permanent { // as OpenAI's 429 with insufficient_quota
			return a.Guess
		}
	}
	return f
}

// textOf returns the text of err, "" if there is none: an error may embed one that is nil.
func textOf(err error) (text string) {
	defer func() { _ = recover() }()
	return err.Error()
}

// saysAgain reports whether an error says that it may pass.
func (k *Type) saysAgain(err error, v reflect.Value) bool {
	for _, p := range k.again {
		if isTrue(value(p.of(v))) {
			return true
		}
	}
	return k.passes && err.(temporary).Temporary()
}

type temporary = interface{ Temporary() bool }

// statusIn returns the HTTP status that a text shows, 0 if there is none: its own, which is that of a
// field and stands behind the word status or HTTP, or one with its phrase, such as 404 Not Found.
func (k *Type) statusIn(text string, v reflect.Value) (status int, own bool) {
	text = text[:min(len(text), 4*longest)]
	word, several := -1, false
	for i := 0; i+3 <= len(text); i++ {
		switch lowered(text[i]) {
		case 's', 'h':
			if has(text[i:], "status") || has(text[i:], "http") && !has(text[i:], "http://") && !has(text[i:], "https:") {
				word = i
			}
		case '4', '5':
			if i > 0 && (isDigit(text[i-1]) || text[i-1] == '.') || !isDigit(text[i+1]) || !isDigit(text[i+2]) || i+3 < len(text) && isDigit(text[i+3]) {
				continue
			}
			n := int(text[i]-'0')*100 + int(text[i+1]-'0')*10 + int(text[i+2]-'0')
			phrase := i+8 <= len(text) && strings.Contains(phrasesOfStatuses, text[i:i+8])
			if (phrase || word >= 0 && i-word < 24) && k.shows(n, v) {
				return n, true
			}
			switch {
			case phrase && status == 0:
				status = n
			case phrase && status != n: // of several errors
				several = true
			}
		}
	}
	if several {
		return 0, false
	}
	return status, false
}

// shows reports whether a field has the status.
func (k *Type) shows(status int, v reflect.Value) bool {
	for _, p := range k.shown {
		if number(value(p.of(v))) == int64(status) {
			return true
		}
	}
	return false
}

// has reports whether a text begins with a word, in letters of any case.
func has(text, word string) bool {
	if len(text) < len(word) {
		return false
	}
	for i := range len(word) {
		if lowered(text[i]) != word[i] {
			return false
		}
	}
	return true
}

// phrasesOfStatuses has the first letters of the phrases of RFC 9110 and others. Mail and FTP
// have statuses from 400 on too, which mean the opposite.
const phrasesOfStatuses = "400 Bad 401 Unau402 Paym403 Forb404 Not 405 Meth406 Not 407 Prox408 Requ409 Conf410 Gone411 Leng412 Prec413 Requ" +
	"413 Payl413 Cont414 Requ414 URI 415 Unsu416 Requ416 Rang417 Expe421 Misd422 Unpr423 Lock424 Fail425 Too 426 Upgr428 Prec429 Too 431 Requ" +
	"451 Unav500 Inte501 Not 502 Bad 503 Serv504 Gate505 HTTP507 Insu508 Loop511 Netw"
