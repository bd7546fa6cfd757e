package worker

import "sync"

// intake reports whether a worker takes new tasks: shut while it is drained, and while
// its machine is under pressure, or it is stopping. Those it has continue.
type intake struct {
	mu               sync.Mutex
	drained, pressed bool
	isShut           bool
	// opened is closed while it is open, shut while it is not.
	opened, shut chan struct{}
}

func newDoor() *intake {
	d := &intake{opened: make(chan struct{}), shut: make(chan struct{})}
	close(d.opened)
	return d
}

// set shuts it while the worker is drained.
func (d *intake) set(drained bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drained = drained
	d.move()
}

// press shuts it while the machine is under pressure, or the worker is stopping.
func (d *intake) press(pressed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pressed = pressed
	d.move()
}

// move opens or closes it; the caller must hold d.mu.
func (d *intake) move() {
	shut := d.drained || d.pressed
	if shut == d.isShut {
		return
	}
	d.isShut = shut
	if shut {
		close(d.shut)
		d.opened = make(chan struct{})
	} else {
		close(d.opened)
		d.shut = make(chan struct{})
	}
}

// open ends when it is open.
func (d *intake) open() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened
}

// closed ends when it is shut.
func (d *intake) closed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shut
}
