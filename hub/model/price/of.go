package price

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
)

var shippedPrices = Shipped()

// Of returns the price of a model for an organisation: the one that it has set, or the
// one that is shipped. A model without one is refused with fault.UnpricedModel.
func Of(ctx context.Context, q *db.Queries, orgID, name, model string) (Model, error) {
	rows, err := q.ListPrices(ctx, db.ListPricesParams{OrgID: orgID, Provider: name, Models: []string{model, provider.Undated(model)}})
	if err != nil {
		return Model{}, fmt.Errorf("load the price of %s: %w", model, err)
	}
	return Resolve(name, model, func(m string) (Model, bool) {
		for _, row := range rows {
			if row.Model == m {
				return FromMicros(row.Input, row.Output, row.CacheRead, row.CacheWrite), true
			}
		}
		return Model{}, false
	})
}

// Resolve returns the price of a model: the one that the organisation has set, which
// set looks up, before the one that is shipped.
func Resolve(name, model string, set func(model string) (Model, bool)) (Model, error) {
	if m, ok := set(model); ok {
		return m, nil
	}
	if m, ok := set(provider.Undated(model)); ok {
		return m, nil
	}
	if m, ok := shippedPrices.Of(name, model); ok {
		return m, nil
	}
	return Model{}, fault.New(fault.Precondition, "model %.100s of %s has no price", model, name).
		WithCode(fault.UnpricedModel).
		WithFix("deckhand provider price %s %.100s --input USD --output USD (for a million tokens; 0 for a model of your own), or use another model", name, model)
}
