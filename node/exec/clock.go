package exec

import "time"

const (
	// jumpTolerance is how far the wall clock may move from the monotonic one between
	// two looks without it being a jump: time servers slew by less in an hour.
	jumpTolerance = time.Minute
	// distrust is how long nothing is deleted by its age after a jump or a start, in
	// which an operator or a time server can set the clock right.
	distrust = time.Hour
)

// clocks notice when the machine's wall clock is set, by comparing it with the
// monotonic one. A jump from before the daemon's start cannot be noticed: the clock
// of a machine that has just booted may be far off. It is not safe for concurrent use.
type clocks struct {
	wall   func() time.Time
	uptime func() time.Duration

	looked     bool
	lastWall   time.Time
	lastUptime time.Duration
	// since is the uptime at which the last jump was noticed; 0 for the start.
	since time.Duration
}

// look compares the clocks, and returns by how much the wall clock has jumped since
// the last look; 0 for not at all.
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

// trusted reports whether ages may be told by the wall clock, as of the last look:
// it has not jumped within the last hour of uptime, nor was the daemon started in it.
func (c *clocks) trusted() bool { return c.lastUptime-c.since >= distrust }
