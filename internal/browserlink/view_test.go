package browserlink_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
)

// What an input is called in the history, and what it types.
func TestInputsAreActs(t *testing.T) {
	t.Parallel()
	mouse := func(action, button string, x float64) browserlink.Input {
		return browserlink.Input{Mouse: &browserlink.Mouse{Action: action, Button: button, X: x}}
	}
	for _, one := range []struct {
		in         browserlink.Input
		what, text string
	}{
		{mouse("moved", "", 50), "", ""},
		{mouse("pressed", "", 0), "clicked", ""},
		{mouse("pressed", "right", 0), "right-clicked", ""},
		{mouse("pressed", "middle", 0), "middle-clicked", ""},
		{mouse("released", "", 3), "", ""},
		{mouse("released", "", 30), "dragged to", ""},
		{mouse("wheel", "", 0), "scrolled", ""},
		{browserlink.Input{Key: "ä"}, "typed", "ä"},
		{browserlink.Input{Key: "Shift+p"}, "pressed", "Shift+p"},
		{browserlink.Input{Key: "Enter"}, "pressed", "Enter"},
		{browserlink.Input{Text: "two words"}, "typed", "two words"},
		{browserlink.Input{Dialog: &browserlink.Answer{Accept: true, Text: "yes"}}, "accepted", "yes"},
		{browserlink.Input{Dialog: &browserlink.Answer{}}, "dismissed", ""},
		{browserlink.Input{}, "", ""},
	} {
		what, text := one.in.Act(browserlink.Mouse{})
		require.Equal(t, []string{one.what, one.text}, []string{what, text}, "%+v", one.in)
	}
}
