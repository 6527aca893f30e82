package retry

// FieldsMatter reports whether the fields of err, or of what it wraps, change what
// DefaultClassifier says of it.
func FieldsMatter(err error) bool {
	return examine(err, scope{class: true, behind: true, fields: true}).class != examine(err, scope{class: true, behind: true}).class
}

// SetRand makes p's holds end as if random numbers were f's.
func (p *Pace) SetRand(f func() float64) { p.pacer.Rand = f }
