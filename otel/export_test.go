package otelretry

// Forget makes room for new names and error types.
func Forget() {
	names.kept.Store(nil)
	errorTypes.kept.Store(nil)
	typed.Clear()
}
