package browserlink

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
}

// Did is what an input did: its number, and either a problem, or what was done to what.
type Did struct {
	Number  int64  `json:"number"`
	Problem string `json:"problem,omitempty"`
	What    string `json:"what,omitempty"` // clicked, dragged, scrolled, pressed, typed, accepted, dismissed; empty for what is no act
	On      string `json:"on,omitempty"`
	// Text is what was typed, or the key; empty and Hidden if the field is for a password.
	Text   string `json:"text,omitempty"`
	Hidden bool   `json:"hidden,omitempty"`
}

// MaxFrame bounds the bytes of a frame's picture, and MaxShown those of a line.
const (
	MaxFrame = 400 << 10
	MaxShown = 32 << 10
)

// ViewerPatience is how long, in seconds, one who watches may say nothing.
const ViewerPatience = 30
