package fileview_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/skill/fileview"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

func file(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func view(t *testing.T, path string) *report.Answer {
	t.Helper()
	out, read, err := fileview.Run(t.Context(), fileview.Args{Path: path})
	require.NoError(t, err)
	require.Positive(t, read)
	return out
}

// noise is a picture that cannot be packed.
func noise(width, height int) *image.NRGBA {
	out := image.NewNRGBA(image.Rect(0, 0, width, height))
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(out.Pix)
	return out
}

func encoded(t *testing.T, picture image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, png.Encode(&out, picture))
	return out.Bytes()
}

// Pictures are made as small as models see them, and so that providers take them.
func TestImages(t *testing.T) {
	t.Parallel()
	flat := image.NewNRGBA(image.Rect(0, 0, 3000, 1000))
	for i := range flat.Pix {
		flat.Pix[i] = 200
	}
	out := view(t, file(t, "wide.png", encoded(t, flat)))
	require.Contains(t, out.String(), "wide.png: png, 3000 x 1000 pixels, shown at 1568 x 522")
	require.Len(t, out.Images, 1)
	require.Equal(t, "image/png", out.Images[0].MediaType)
	seen, err := png.Decode(bytes.NewReader(out.Images[0].Data))
	require.NoError(t, err)
	require.Equal(t, image.Pt(1568, 522), seen.Bounds().Size())
	require.Equal(t, color.NRGBAModel.Convert(flat.At(5, 5)), color.NRGBAModel.Convert(seen.At(5, 5)))

	var photograph bytes.Buffer
	require.NoError(t, jpeg.Encode(&photograph, flat, nil))
	out = view(t, file(t, "photo.jpg", photograph.Bytes()))
	require.Equal(t, "image/jpeg", out.Images[0].MediaType)

	out = view(t, file(t, "noise.png", encoded(t, noise(1400, 1400))))
	require.LessOrEqual(t, len(out.Images[0].Data), 1<<20)
	_, format, err := image.Decode(bytes.NewReader(out.Images[0].Data))
	require.NoError(t, err)
	require.Equal(t, "jpeg", format)
}

// What is no picture, or a hostile one, is refused with what to do.
func TestFilesThatCannotBeShown(t *testing.T) {
	t.Parallel()
	whole := encoded(t, noise(64, 64))
	bomb := bytes.Clone(whole)
	binary.BigEndian.PutUint32(bomb[16:], 30_000) // its header's width
	binary.BigEndian.PutUint32(bomb[20:], 30_000)
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	for says, path := range map[string]string{
		"is no PNG, JPEG, GIF or WebP image and no PDF document; read text with file_read": file(t, "a.txt", []byte("text")),
		"is damaged":                          file(t, "cut.png", whole[:len(whole)/2]),
		"has 30000 x 30000 pixels":            file(t, "bomb.png", bomb),
		"cannot be shown":                     file(t, "broken.pdf", []byte("%PDF-1.7\nnothing")),
		"no such file":                        filepath.Join(t.TempDir(), "none.png"),
		"is no file":                          t.TempDir(),
		"path is empty: name an image or a P": "",
	} {
		_, _, err := fileview.Run(t.Context(), fileview.Args{Path: path})
		require.ErrorContains(t, err, says)
	}
}

// Pages of a PDF document are drawn, at most four at once.
func TestPagesOfADocument(t *testing.T) {
	t.Parallel()
	path := file(t, "plan.pdf", document(6))
	out, _, err := fileview.Run(t.Context(), fileview.Args{Path: path, Page: 2, Pages: 9})
	require.NoError(t, err)
	require.Contains(t, out.String(), "plan.pdf: PDF document of 6 pages, pages 2 to 5 shown")
	require.Len(t, out.Images, 4)
	page, err := png.Decode(bytes.NewReader(out.Images[0].Data))
	require.NoError(t, err)
	require.Equal(t, image.Pt(1568, 1045), page.Bounds().Size())
	dark := 0
	for x := range 1568 {
		for y := range 1045 {
			if r, _, _, _ := page.At(x, y).RGBA(); r < 0x4000 {
				dark++
			}
		}
	}
	require.Greater(t, dark, 1000, "its text is there")

	out, _, err = fileview.Run(t.Context(), fileview.Args{Path: path, Page: 6, Pages: 2})
	require.NoError(t, err)
	require.Contains(t, out.String(), "pages 6 to 6 shown")
	_, _, err = fileview.Run(t.Context(), fileview.Args{Path: path, Page: 7})
	require.ErrorContains(t, err, "has 6 pages, and page is 7")
}

// document is a PDF document with a line of text on each page.
func document(pages int) []byte {
	var objects []string
	kids := ""
	for i := range pages {
		kids += fmt.Sprintf("%d 0 R ", 4+2*i)
	}
	objects = append(objects, "<< /Type /Catalog /Pages 2 0 R >>", fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids, pages),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	for i := range pages {
		text := fmt.Sprintf("BT /F1 24 Tf 20 100 Td (This is page %d) Tj ET", i+1)
		objects = append(objects,
			fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>", 5+2*i),
			fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(text), text))
	}
	out := []byte("%PDF-1.4\n")
	table := fmt.Sprintf("xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for i, object := range objects {
		table += fmt.Sprintf("%010d 00000 n \n", len(out))
		out = fmt.Appendf(out, "%d 0 obj\n%s\nendobj\n", i+1, object)
	}
	at := len(out)
	return fmt.Appendf(out, "%strailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF", table, len(objects)+1, at)
}
