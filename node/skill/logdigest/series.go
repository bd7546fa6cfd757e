package logdigest

// buckets is how finely a template's times are counted, however long they span.
const buckets = 64

// series counts events over time in a fixed number of buckets. They grow wider,
// by powers of two seconds, as the time does.
type series struct {
	count [buckets]uint32
	base  int64 // number of the first bucket: its start is base << shift
	shift uint8
	any   bool
}

// add counts an event at a second.
func (s *series) add(sec int64, n uint32) {
	if !s.any {
		s.any, s.base = true, sec
	}
	for {
		at := (sec >> s.shift) - s.base
		if at >= 0 && at < buckets {
			s.count[at] += n
			return
		}
		if at < 0 && s.last()-at < buckets {
			// Earlier than all before, with room behind them.
			copy(s.count[-at:], s.count[:buckets+int(at)])
			clear(s.count[:-at])
			s.base += at
			continue
		}
		s.widen()
	}
}

// last returns the last bucket that holds something.
func (s *series) last() int64 {
	for i := buckets - 1; i > 0; i-- {
		if s.count[i] != 0 {
			return int64(i)
		}
	}
	return 0
}

// widen makes each bucket twice as long.
func (s *series) widen() {
	var merged [buckets]uint32
	base := s.base >> 1
	for i, n := range s.count {
		if n != 0 {
			merged[((s.base+int64(i))>>1)-base] += n
		}
	}
	s.count, s.base, s.shift = merged, base, s.shift+1
}

// burst is a time in which something came much more often than otherwise.
type burst struct {
	from, to int64 // Unix seconds
	count    uint32
	factor   float64 // against the mean of the rest
}

// A burst is at least so many events, and so many times the usual rate.
const (
	burstCount  = 20
	burstFactor = 4
)

// burst returns the greatest burst between two seconds, the log's first and
// last; false if there is none.
func (s *series) burst(first, last int64) (burst, bool) {
	if !s.any || last <= first {
		return burst{}, false
	}
	lo, hi := first>>s.shift, last>>s.shift // the log's, in buckets
	span := hi - lo + 1
	if span < 4 {
		return burst{}, false
	}
	var total, most uint64
	at := 0
	for i, n := range s.count {
		total += uint64(n)
		if uint64(n) > most {
			most, at = uint64(n), i
		}
	}
	// Neighbours that are as high belong to it.
	from, to, sum := at, at, most
	for from > 0 && uint64(s.count[from-1])*2 >= most {
		from--
		sum += uint64(s.count[from])
	}
	for to < buckets-1 && uint64(s.count[to+1])*2 >= most {
		to++
		sum += uint64(s.count[to])
	}
	wide := int64(to - from + 1)
	if sum < burstCount || wide*3 > span {
		return burst{}, false
	}
	rest := max(float64(total-sum)/float64(span-wide), 0.2)
	factor := float64(sum) / float64(wide) / rest
	if factor < burstFactor {
		return burst{}, false
	}
	return burst{
		from: (s.base + int64(from)) << s.shift, to: (s.base+int64(to)+1)<<s.shift - 1, count: uint32(sum), factor: factor,
	}, true
}
