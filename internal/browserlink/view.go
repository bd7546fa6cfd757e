package browserlink

import (
	"math"
	"time"
	"unicode"
	"unicode/utf8"
)

// WatchTool is what is signed in place of a tool's name for one who watches a browser.
const WatchTool = "watch"

// Said is what one who watches says, one object in a line. The first line is the request, which
// is signed as a call. Something has to be said at least once in ViewerPatience.
type Said struct {
	// Take has the agent's calls wait until the browser is given back, by the person of that
	// name. Give gives it back.
	Take string `json:"take,omitempty"`
	Give bool   `json:"give,omitempty"`
	// Input is what the person does, numbered by the one who says it.
	Input  *Input `json:"input,omitempty"`
	Number int64  `json:"number,omitempty"`
}

// Input is one act of a person: exactly one of its parts is set.
type Input struct {
	Mouse  *Mouse  `json:"mouse,omitempty"`
	Key    string  `json:"key,omitempty"` // such as Enter or Control+A
	Text   string  `json:"text,omitempty"`
	Dialog *Answer `json:"dialog,omitempty"`
}

// Mouse is what was done with the mouse at a point of the page, in pixels.
type Mouse struct {
	Action string  `json:"action"` // moved, pressed, released or wheel
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	Button string  `json:"button,omitempty"` // left, middle or right
	Clicks int     `json:"clicks,omitempty"`
	Held   int     `json:"held,omitempty"` // modifiers as the protocol of the browser numbers them
	DeltaX float64 `json:"delta_x,omitempty"`
	DeltaY float64 `json:"delta_y,omitempty"`
}

// Answer closes a dialog.
type Answer struct {
	Accept bool   `json:"accept"`
	Text   string `json:"text,omitempty"`
}

// Shown is what a browser says to one who watches, one object in a line.
type Shown struct {
	// Frame is followed by the bytes of its picture.
	Frame *Frame `json:"frame,omitempty"`
	// Taken and Given report that the browser is the person's, and that it is the agent's again.
	Taken bool `json:"taken,omitempty"`
	Given bool `json:"given,omitempty"`
	// Did is what became of an input.
	Did *Did `json:"did,omitempty"`
}

// Frame is what a browser shows at a moment.
type Frame struct {
	At     int64 `json:"at"` // in milliseconds since 1970
	Width  int   `json:"width"`
	Height int   `json:"height"`
	// Bytes is the length of its JPEG; 0 if the page looks as before, or shows nothing.
	Bytes int    `json:"bytes"`
	URL   string `json:"url,omitempty"`
	Title string `json:"title,omitempty"`
	// Dialog and Message are the kind and the text of a dialog that is open.
	Dialog  string `json:"dialog,omitempty"`
	Message string `json:"message,omitempty"`
	// Problem is why there is nothing to be seen.
	Problem string `json:"problem,omitempty"`
	// Ended reports that a recording ends here, for that reason.
	Ended bool `json:"ended,omitempty"`
}

// Did is what became of the input of a number.
type Did struct {
	Number int64 `json:"number"`
	// Made reports that it was passed on to the page, whatever Problem says.
	Made    bool   `json:"made,omitempty"`
	Problem string `json:"problem,omitempty"`
	// On is the element, and URL the address of the page.
	On  string `json:"on,omitempty"`
	URL string `json:"url,omitempty"`
	// Hidden reports that the element is for a secret, or that this is not known.
	Hidden bool `json:"hidden,omitempty"`
}

// dragDistance is how many pixels make a drag of a click.
const dragDistance = 5

// Act returns what an input does, as the event browser_acted has it, and the text or the key of it.
// It is empty for what is no act: a movement of the mouse, or the end of a click, which began at from.
func (in Input) Act(from Mouse) (what, text string) {
	switch {
	case in.Dialog != nil && in.Dialog.Accept:
		return "accepted", in.Dialog.Text
	case in.Dialog != nil:
		return "dismissed", ""
	case in.Text != "":
		return "typed", in.Text
	case in.Key != "" && in.Prints():
		return "typed", in.Key
	case in.Key != "":
		return "pressed", in.Key
	case in.Mouse == nil:
		return "", ""
	}
	switch m := *in.Mouse; m.Action {
	case "pressed":
		switch m.Button {
		case "right":
			return "right-clicked", ""
		case "middle":
			return "middle-clicked", ""
		}
		return "clicked", ""
	case "released":
		if math.Hypot(m.X-from.X, m.Y-from.Y) > dragDistance {
			return "dragged to", ""
		}
	case "wheel":
		return "scrolled", ""
	}
	return "", ""
}

// Prints reports whether an input is a character by itself.
func (in Input) Prints() bool {
	r, n := utf8.DecodeRuneInString(in.Key)
	return n > 0 && n == len(in.Key) && unicode.IsPrint(r)
}

// MaxFrame bounds the bytes of a frame's picture, and MaxShown those of a line.
const (
	MaxFrame = 400 << 10
	MaxShown = 32 << 10
)

// A recording of a browser is what is shown to one who watches, from its start on: of at most
// RecordedTime, MaxRecorded frames, and MaxRecording bytes.
const (
	RecordedTime = 8 * time.Hour
	MaxRecorded  = 10_000
	MaxRecording = 32 << 20
)

// ViewerPatience is how long, in seconds, one who watches may say nothing.
const ViewerPatience = 30
