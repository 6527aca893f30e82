package clienterr

import "slices"

// Forget empties the table of a vendor, and removes all rules for the types that it is for, until
// restore is called. So a test can read the errors of a vendor whom nobody has listed. It must
// not be called while errors are judged.
func Forget(vendor string) (restore func()) {
	t := tableOf(vendor)
	known, all := *t, rules
	*t = table{}
	rules = slices.DeleteFunc(slices.Clone(all), func(r rule) bool {
		return slices.ContainsFunc(all, func(other rule) bool {
			return other.table == t && other.pkg == r.pkg && other.name == r.name
		})
	})
	types.Clear()
	clear(recent[:])
	return func() {
		*t, rules = known, all
		types.Clear()
		clear(recent[:])
	}
}
