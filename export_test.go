package retry

// FieldsMatter reports whether the fields of err, or of what it wraps, change what
// classify says of it.
func FieldsMatter(err error) bool {
	return classify(err, scope{behind: true, fields: true}) != classify(err, scope{behind: true})
}
