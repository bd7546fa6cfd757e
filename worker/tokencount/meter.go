package tokencount

// Meter foretells the prompt tokens that a provider will report. It begins with
// what the provider reported last, adds the estimate of what is new, and learns
// from each report how the provider counts. The zero value is ready.
type Meter struct {
	// rate is reported tokens by counted ones; 0 until the first report.
	rate float64
	// counted and reported belong to the last request; reported is 0 if the
	// next one does not begin like it.
	counted, reported float64
}

// learning is how much of a new rate is taken over at once.
const learning = 0.5

// Estimate foretells the tokens of a prompt whose texts count so many.
func (m *Meter) Estimate(counted int) int {
	if m.reported > 0 {
		return max(0, int(m.reported+m.Rate()*(float64(counted)-m.counted)))
	}
	return int(m.Rate() * float64(counted))
}

// Rate is how many tokens of the provider's one counted token is.
func (m *Meter) Rate() float64 {
	if m.rate == 0 {
		return 1
	}
	return m.rate
}

// Report takes what the provider said that a prompt was. A provider that says
// nothing (0) teaches nothing.
func (m *Meter) Report(counted int, reported int64) {
	if counted <= 0 || reported <= 0 {
		m.reported = 0
		return
	}
	rate := float64(reported) / float64(counted)
	if m.rate == 0 {
		m.rate = rate
	} else {
		m.rate += learning * (rate - m.rate)
	}
	m.counted, m.reported = float64(counted), float64(reported)
}

// Cut says that the next prompt does not begin as the last one did.
func (m *Meter) Cut() { m.reported = 0 }
