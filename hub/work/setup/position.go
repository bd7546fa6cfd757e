package setup

import (
	"sync"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// position is how far a running setup is.
type position struct {
	mu  sync.Mutex
	row db.ImageSetup // guarded by mu
}

func (p *position) get() db.ImageSetup {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.row
}

func (p *position) set(row db.ImageSetup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.row = row
}
