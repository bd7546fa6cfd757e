package wire

import (
	"encoding/base64"
	"fmt"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// ResultText is a result's text, and instead of its images, for a model
// that is not shown them, what they were.
func ResultText(result model.Result, shown bool) string {
	text := result.Text
	if !shown {
		for _, image := range result.Images {
			if text != "" {
				text += "\n"
			}
			text += fmt.Sprintf("[an image, %s, %d bytes, which this model cannot be shown]", image.GetMediaType(), len(image.GetData()))
		}
	}
	return OrElse(text, NoOutput)
}

// ShownWith is the text before the images of a tool's result in a format whose
// results are text only: the images follow after all results.
func ShownWith(result model.Result) string {
	return fmt.Sprintf("What the call %s of %s answered, as images:", CallID(result.CallID), result.Tool)
}

// DataURL is an image as a URL that holds it.
func DataURL(image *deckhandv1.Image) string {
	return "data:" + image.GetMediaType() + ";base64," + base64.StdEncoding.EncodeToString(image.GetData())
}
