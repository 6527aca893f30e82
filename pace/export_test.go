package pace

// SetRand makes p's holds end as if random numbers were f's.
func (p *Pace) SetRand(f func() float64) { p.on(nil, f) }
