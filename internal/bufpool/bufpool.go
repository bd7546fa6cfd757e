// Package bufpool shares buffers for copying between goroutines. A Pool is what
// httputil.ReverseProxy takes as its BufferPool.
package bufpool

import "sync"

// Pool holds buffers of one size. It is safe for use by many goroutines.
type Pool struct {
	size int
	free sync.Pool
}

// New returns a Pool of buffers of so many bytes.
func New(size int) *Pool { return &Pool{size: size} }

// Get returns a buffer, whose content is whatever was in it.
func (p *Pool) Get() []byte {
	if b, ok := p.free.Get().([]byte); ok {
		return b
	}
	return make([]byte, p.size)
}

// Put takes a buffer of Get back.
func (p *Pool) Put(b []byte) { p.free.Put(b) } //nolint:staticcheck // a header to a buffer is small beside it
