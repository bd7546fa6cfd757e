package browser

import (
	"errors"
	"fmt"

	"github.com/deckhand-sh/deckhand/internal/toolname"
)

func doUpload(c *call) error {
	if len(c.files) == 0 {
		return errors.New("paths: name at least one file")
	}
	var e element
	c.b.mu.Lock()
	chooser := c.t.chooser
	c.b.mu.Unlock()
	switch {
	case c.args.Target != "":
		var err error
		if e, err = c.target(forFiles); err != nil {
			return err
		}
	case chooser != 0:
		e = element{backend: chooser, role: "file field"}
	default:
		return errors.New("target: say which file field is meant, or click what opens the choice of files first")
	}
	raw, err := c.on(c.ctx, e, `function() { const e = this.localName === 'label' ? this.control : this.localName === 'input' ? this : this.querySelector && this.querySelector('input[type=file]'); return e && e.type === 'file' ? (e.multiple ? 'many' : 'one') : '' }`)
	if err != nil {
		return err
	}
	switch takes := unmarshalString(raw); {
	case takes == "" && chooser == 0:
		return fmt.Errorf("%s is no file field: click it to have the page ask for files, and then call %s without a target", c.named(e), toolname.BrowserUpload)
	case takes == "":
		e = element{backend: chooser, role: "file field"}
	case takes == "one" && len(c.files) > 1:
		return fmt.Errorf("%s takes one file only", c.named(e))
	}
	taken, err := bring(c, e)
	if err != nil {
		return err
	}
	taken()
	if err := c.act(c.ctx, "DOM.setFileInputFiles", map[string]any{"files": c.files, "backendNodeId": e.backend}, nil); err != nil && !errors.Is(err, errDialog) {
		return err
	}
	c.b.mu.Lock()
	c.t.chooser = 0
	c.b.mu.Unlock()
	c.say("gave %d files to %s", len(c.files), c.named(e))
	return c.after()
}
