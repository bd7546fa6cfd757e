// Package fileview shows images and pages of PDF documents to models that can see. Run is
// the skill. It decodes a file and encodes it again in a size that providers accept: a
// provider never gets the bytes of the file itself, which may be damaged or hostile.
//
// Images are decoded by Go's own packages. PDF documents are drawn by PDFium, compiled to
// WebAssembly, which reaches neither files nor the network of the jail.
package fileview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // decoded
	"image/jpeg"
	"image/png"
	"io"
	"os"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // decoded

	"github.com/deckhand-sh/deckhand/node/skill/input"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// Args are the arguments of the skill.
type Args struct {
	Path string `json:"path"`
	// Page is the first page of a PDF document to show, from 1; 0 for 1. Pages is how many;
	// 0 for 1.
	Page     int `json:"page"`
	Pages    int `json:"pages"`
	MaxBytes int `json:"max_bytes"`
}

const (
	// maxFile is the size of a file that is read.
	maxFile = 64 << 20
	// maxPixels bounds what is decoded: as much memory as this program may take.
	maxPixels = 40_000_000
	// longest is the longest side of a picture: models see no more.
	longest = 1568
	// maxPicture is how many bytes a picture may have, and least its shortest longest side:
	// from there on it is not made smaller.
	maxPicture = 1 << 20
	least      = 200
	// MaxPages is how many pages are shown at once.
	MaxPages = 4
)

// Run shows the picture or the pages of a file.
func Run(ctx context.Context, args Args) (*report.Answer, int64, error) {
	data, err := readFile(args.Path)
	if err != nil {
		return nil, 0, err
	}
	out := report.New(args.MaxBytes)
	name := report.Clean([]byte(input.Name(args.Path)), 300)
	if bytes.HasPrefix(data, []byte("%PDF-")) {
		err = showPages(ctx, out, name, data, args)
	} else {
		err = showImage(out, name, data)
	}
	return out, int64(len(data)), err
}

func readFile(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("path is empty: name an image or a PDF document")
	}
	// Opening a pipe would block.
	info, err := os.Stat(path)
	if err != nil {
		return nil, input.Say(err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file", path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes: at most %d can be shown; make a smaller one with a command", path, info.Size(), maxFile)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, input.Say(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, input.Say(err)
	}
	return data, nil
}

func showImage(out *report.Answer, name string, data []byte) error {
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s is no PNG, JPEG, GIF or WebP image and no PDF document; read text with file_read, or convert it with a command", name)
	}
	if pixels := int64(config.Width) * int64(config.Height); pixels > maxPixels || pixels <= 0 {
		return fmt.Errorf("%s has %d x %d pixels: at most %d can be shown; make a smaller one with a command", name, config.Width, config.Height, maxPixels)
	}
	picture, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s is damaged: %w", name, err)
	}
	shown, err := attach(out, picture, format == "jpeg")
	if err != nil {
		return err
	}
	out.Line("%s: %s, %d x %d pixels, shown at %d x %d", name, format, config.Width, config.Height, shown.X, shown.Y)
	return nil
}

// attach adds a picture to an answer and returns the size in which it did. A photograph
// stays one; other pictures lose nothing, unless they would be too large.
func attach(out *report.Answer, picture image.Image, photograph bool) (image.Point, error) {
	for side := longest; ; side = side * 3 / 4 {
		small := shrink(picture, side)
		var encoded bytes.Buffer
		mediaType := "image/png"
		err := error(nil)
		if !photograph {
			err = png.Encode(&encoded, small)
		}
		if photograph || encoded.Len() > maxPicture {
			encoded.Reset()
			mediaType = "image/jpeg"
			err = jpeg.Encode(&encoded, onWhite(small), &jpeg.Options{Quality: 85})
		}
		if err != nil {
			return image.Point{}, fmt.Errorf("encode a picture: %w", err)
		}
		if encoded.Len() <= maxPicture || side < least {
			out.Attach(mediaType, encoded.Bytes())
			return small.Bounds().Size(), nil
		}
	}
}

// shrink returns a picture whose longer side has at most so many pixels.
func shrink(picture image.Image, side int) image.Image {
	size := picture.Bounds().Size()
	if size.X <= side && size.Y <= side {
		return picture
	}
	to := image.Pt(side, max(1, size.Y*side/size.X))
	if size.Y > size.X {
		to = image.Pt(max(1, size.X*side/size.Y), side)
	}
	small := image.NewNRGBA(image.Rectangle{Max: to})
	draw.CatmullRom.Scale(small, small.Bounds(), picture, picture.Bounds(), draw.Src, nil)
	return small
}

// onWhite puts a picture on white, for a format without transparency.
func onWhite(picture image.Image) image.Image {
	out := image.NewRGBA(image.Rectangle{Max: picture.Bounds().Size()})
	draw.Draw(out, out.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(out, out.Bounds(), picture, picture.Bounds().Min, draw.Over)
	return out
}
