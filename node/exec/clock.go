package exec

import "time"

const (
	// jumpTolerance is how far the wall clock may move relative to the
	// monotonic clock between two checks without counting as a jump: time
	// servers slew by less in an hour.
	jumpTolerance = time.Minute
	// distrust is how long after a jump or a start nothing is deleted because
	// of its age, so that an operator or a time server can correct the clock.
	distrust = time.Hour
)

// clocks detects when the machine's wall clock is set, by comparing it with the
// monotonic clock. It cannot detect a jump before the daemon's start: the clock
// of a machine that has just booted may be far off. It is not safe for
// concurrent use.
type clocks struct {
	wall   func() time.Time
	uptime func() time.Duration

	looked     bool
	lastWall   time.Time
	lastUptime time.Duration
	// since is the uptime at which the last jump was detected; 0 means the
	// start.
	since time.Duration
}

// look compares the clocks and returns by how much the wall clock has jumped
// since the last call; 0 if it has not.
func (c *clocks) look() (jump time.Duration) {
	wall, up := c.wall().Round(0), c.uptime() // Round drops the monotonic reading
	if c.looked {
		jump = wall.Sub(c.lastWall) - (up - c.lastUptime)
	}
	c.looked, c.lastWall, c.lastUptime = true, wall, up
	if jump.Abs() <= jumpTolerance {
		return 0
	}
	c.since = up
	return jump
}

// trusted reports whether the wall clock may be used to compute ages: neither a
// jump nor the daemon's start was within the last hour of uptime, as of the
// last look.
func (c *clocks) trusted() bool { return c.lastUptime-c.since >= distrust }
