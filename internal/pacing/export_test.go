package pacing

// Round returns the round of attempts that start now.
func (p *Pacer[T]) Round() uint64 { return p.law.round }
