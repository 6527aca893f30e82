package retryvet

// libraryOf returns what is known of a retry library, nil of other packages.
func libraryOf(path string) *int { return nil }
func foreign(p *pass)            {}
