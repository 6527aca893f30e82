package clienterr

import "strings"

// Forget empties the table of a vendor, and removes all rules for the types that it is for, until
// restore is called. So a test can read the errors of a vendor whom nobody has listed. It must
// not be called while errors are judged.
func Forget(vendor string) (restore func()) {
	t := tableOf(vendor)
	known, all := *t, ruleLines
	*t, ruleLines = table{}, ""
	for line := range strings.Lines(all) {
		of := false
		for _, rule := range strings.Split(line, "\t")[2:] {
			of = of || parseRule(rule).table == t
		}
		if !of {
			ruleLines += line
		}
	}
	types.Clear()
	clear(recent[:])
	return func() {
		*t, ruleLines = known, all
		types.Clear()
		clear(recent[:])
	}
}
