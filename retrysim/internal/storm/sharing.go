package storm

import (
	"container/heap"
	"time"
)

// sharing is a server whose workers are shared by all its requests. At any time each of
// them gets the same: a worker, or workers/requests of one if there are fewer. So which
// is done next does not change with those that come and go. All that is counted is how
// much work each has got that has been there since the start, and at how much of it a
// request will be done.
type sharing struct {
	got     time.Duration // by each, up to counted
	counted time.Duration
	round   uint32 // of the event in which the next is done: an earlier one is out of date
	shares  shares
}

// share is when a request is done. Its place may have been left, and taken by another.
type share struct {
	done      time.Duration // once each has got as much
	request   int32
	departure uint32
}

// shares is a heap.
type shares []share

func (h shares) Len() int           { return len(h) }
func (h shares) Less(i, j int) bool { return h[i].done < h[j].done }
func (h shares) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *shares) Push(any)          {} // see share: heap.Fix does it without allocating
func (h *shares) Pop() any          { return nil }

// share begins a request at a server whose workers are shared.
func (s *service) share(n int32) {
	q, v := s.request(n), s.at(n)
	s.count(q.server)
	q.begun = true
	v.busy++
	v.held++
	v.shares = append(v.shares, share{later(v.got, s.takes(v)), n, q.departure})
	heap.Fix(&v.shares, len(v.shares)-1)
	s.patience(n)
	s.awaitNext(q.server)
}

// unshare takes note that a server has one request less.
func (s *service) unshare(server int32) {
	s.count(server)
	s.servers[server].busy--
	s.awaitNext(server)
}

// complete ends the work on the request that is done next.
func (s *service) complete(server int32, round uint32) {
	v := &s.servers[server]
	if round != v.round {
		return
	}
	s.count(server)
	v.got = v.shares[0].done // but for rounding
	n := v.shares[0].request
	q := s.request(n)
	s.finish(n, s.answer(q.call, q.try, s.now, s.luck(), true))
}

// count brings up to date what each request has got.
func (s *service) count(server int32) {
	v := &s.servers[server]
	if v.busy > 0 {
		v.got = later(v.got, times(s.worked(int(server), v.counted, s.now), s.speed(v)))
	}
	v.counted = s.now
}

// speed returns which part of a worker each request has.
func (s *service) speed(v *server) float64 { return min(1, float64(s.Workers)/float64(max(v.busy, 1))) }

// awaitNext schedules when the next request is done, unless another comes or goes before.
func (s *service) awaitNext(server int32) {
	v := &s.servers[server]
	v.round = following(v.round)
	for len(v.shares) > 0 && s.request(v.shares[0].request).departure != v.shares[0].departure {
		last := len(v.shares) - 1
		v.shares.Swap(0, last)
		if v.shares = v.shares[:last]; last > 0 {
			heap.Fix(&v.shares, 0)
		}
	}
	if len(v.shares) > 0 {
		left := times(max(v.shares[0].done-v.got, 0), 1/s.speed(v))
		s.schedule(s.Work(int(server), s.now, left)-s.now, proceeds, server, v.round)
	}
}

// worked returns how much work a server does between two instants: the reverse of Work.
func (s Service) worked(server int, from, to time.Duration) time.Duration {
	work := to - from
	for _, o := range s.Outages {
		lasts := min(o.To, to) - max(o.From, from)
		if !o.hits(server) || lasts <= 0 {
			continue
		}
		work -= lasts
		if o.Answer == Slow {
			work += times(lasts, 1/max(o.Factor, 1))
		}
	}
	return work
}
