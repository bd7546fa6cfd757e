package fileview

import (
	"context"
	"fmt"
	"image"
	"time"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// instanceTime bounds the start of PDFium.
const instanceTime = 30 * time.Second

// showPages draws pages of a PDF document.
func showPages(ctx context.Context, out *report.Answer, name string, data []byte, args Args) error {
	// Interpreted: to compile it would take longer than to draw some pages.
	features := api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling
	pool, err := webassembly.Init(webassembly.Config{
		Context: ctx, MinIdle: 1, MaxIdle: 1, MaxTotal: 1, FSConfig: wazero.NewFSConfig(),
		RuntimeConfig: wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(features).WithCloseOnContextDone(true),
	})
	if err != nil {
		return fmt.Errorf("start PDFium: %w", err)
	}
	defer pool.Close()
	pdf, err := pool.GetInstance(instanceTime)
	if err != nil {
		return fmt.Errorf("start PDFium: %w", err)
	}
	doc, err := pdf.OpenDocument(&requests.OpenDocument{File: &data})
	if err != nil {
		return fmt.Errorf("%s cannot be shown: %w", name, err)
	}
	count, err := pdf.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil {
		return fmt.Errorf("%s cannot be shown: %w", name, err)
	}
	first, pages := max(args.Page, 1), min(max(args.Pages, 1), MaxPages)
	if first > count.PageCount {
		return fmt.Errorf("%s has %d pages, and page is %d", name, count.PageCount, first)
	}
	last := min(first+pages-1, count.PageCount)
	for page := first; page <= last; page++ {
		if err := showPage(out, pdf, doc.Document, page-1); err != nil {
			return fmt.Errorf("page %d of %s cannot be shown: %w", page, name, err)
		}
	}
	out.Line("%s: PDF document of %d pages, pages %d to %d shown", name, count.PageCount, first, last)
	return nil
}

// showPage draws the page with an index, from 0.
func showPage(out *report.Answer, pdf pdfium.Pdfium, doc references.FPDF_DOCUMENT, index int) error {
	page := requests.Page{ByIndex: &requests.PageByIndex{Document: doc, Index: index}}
	size, err := pdf.GetPageSize(&requests.GetPageSize{Page: page})
	if err != nil {
		return err
	}
	if size.Width <= 0 || size.Height <= 0 {
		return fmt.Errorf("it is %g x %g points large", size.Width, size.Height)
	}
	scale := longest / max(size.Width, size.Height)
	at := image.Pt(max(1, int(size.Width*scale)), max(1, int(size.Height*scale)))
	drawn, err := pdf.RenderPageInPixels(&requests.RenderPageInPixels{Page: page, Width: at.X, Height: at.Y})
	if err != nil {
		return err
	}
	defer drawn.Cleanup()
	_, err = attach(out, drawn.Result.RenderedImage, false)
	return err
}
