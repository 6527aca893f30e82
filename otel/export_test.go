package otelretry

// Forget makes room for new names and error types.
func Forget() {
	names.seen, errorTypes.seen = nil, nil
	typed.Clear()
}
