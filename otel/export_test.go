package otelretry

// Forget makes room for new names, error types and types of guards.
func Forget() {
	names.kept.Store(nil)
	errorTypes.kept.Store(nil)
	guardTypes.kept.Store(nil)
	typed.Clear()
}
