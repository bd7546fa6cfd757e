package node

import (
	"errors"
	"io"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// newOutputs is where a command's output goes: as it is, but made harmless on a
// terminal.
type outputs struct {
	app      *env.Env
	out, err io.Writer
	closers  []io.Closer
}

func newOutputs(e *env.Env) *outputs {
	o := &outputs{app: e, out: e.Out, err: e.Err}
	for _, w := range []*io.Writer{&o.out, &o.err} {
		if output.IsTerminal(*w) {
			safe := termsafe.Writer(*w)
			*w = safe
			o.closers = append(o.closers, safe)
		}
	}
	return o
}

func (o *outputs) piece(p *deckhandv1.ReadNodeLogResponse) error {
	w := o.out
	if p.GetStream() == "stderr" {
		w = o.err
	}
	_, err := w.Write(p.GetData())
	return err
}

func (o *outputs) close() error {
	var errs []error
	for _, c := range o.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
