package budget

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// Report is what calls cost in a time.
type Report struct {
	Rows  []db.UsageReportRow
	Total db.UsageReportRow
	// Forecast is for the current month.
	Forecast Forecast
}

// Asked selects what a report covers.
type Asked struct {
	OrgID string
	// By is agent, user, model, task, hour, day or month.
	By string
	// Split is agent, user or model; empty for one row for each value of By.
	Split        string
	Since, Until time.Time
	// User is whose tasks' only; empty for everybody's.
	User string
}

// maxRows bounds a report.
const (
	maxRows = 1000
	// maxParts bounds one whose rows are split.
	maxParts = 20_000
)

// Report adds up what calls cost.
func (l *Ledger) Report(ctx context.Context, a Asked) (Report, error) {
	var out Report
	sum := func(by, split string, since, until time.Time, user string) ([]db.UsageReportRow, error) {
		params := db.UsageReportParams{By: by, Split: split, OrgID: a.OrgID, Since: since, Until: until, MaxRows: maxRows}
		if split != "" {
			params.MaxRows = maxParts
		}
		if user != "" {
			params.UserName = &user
		}
		rows, err := l.cfg.Store.UsageReport(ctx, params)
		if err != nil {
			return nil, fmt.Errorf("add up the usage: %w", err)
		}
		return rows, nil
	}
	var err error
	if out.Rows, err = sum(a.By, a.Split, a.Since, a.Until, a.User); err != nil {
		return out, err
	}
	total, err := sum("", "", a.Since, a.Until, a.User)
	if err != nil {
		return out, err
	}
	if len(total) > 0 {
		out.Total = total[0]
	}
	now := l.cfg.Now().UTC()
	days, err := sum("day", "", forecastFrom(now), now, a.User)
	if err != nil {
		return out, err
	}
	perDay := make(map[string]int64, len(days))
	for _, row := range days {
		perDay[row.Key] = row.CostMicros
	}
	month := Name{Organisation, a.OrgID, Month}
	if a.User != "" {
		month = Name{User, a.User, Month}
	}
	limit, err := l.Get(ctx, a.OrgID, month)
	if err != nil {
		return out, err
	}
	out.Forecast = forecast(now, perDay, limit.Limit)
	return out, nil
}

// Forecast estimates the cost of a month from that of the last week.
type Forecast struct {
	// Month is for example 2026-11, in UTC.
	Month string
	// Micro-dollars: so far, a day on average, and at its end.
	Spent, Daily, AtEnd int64
	// Limit is negative for none.
	Limit int64
	// Reached is when the limit is; zero for not in this month.
	Reached time.Time
	// Days is how many whole days it was made from. With Early they are too few to tell:
	// Daily and AtEnd are not set, and Reached only if it is already.
	Days  int
	Early bool
}

// fewDays is how many whole days a forecast needs: one day with few calls, or many, says
// nothing about a month.
const fewDays = 3

// lookBack is how many days a forecast is made from.
const lookBack = 7

// forecastFrom returns the first day that a forecast needs to know of.
func forecastFrom(now time.Time) time.Time {
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	if week := now.Truncate(24*time.Hour).AddDate(0, 0, -lookBack); week.Before(month) {
		return week
	}
	return month
}

// forecast extrapolates the mean of the last whole days since calls began, of seven at
// most.
func forecast(now time.Time, perDay map[string]int64, limit int64) Forecast {
	now = now.UTC()
	out := Forecast{Month: Month.Of(now), Limit: limit}
	for day, cost := range perDay {
		if day[:len("2006-01")] == out.Month {
			out.Spent += cost
		}
	}
	today := now.Truncate(24 * time.Hour)
	mean := 0.0
	for back := 1; back <= lookBack; back++ {
		cost := perDay[Day.Of(today.AddDate(0, 0, -back))]
		mean += float64(cost)
		if cost > 0 {
			out.Days = back // since calls began
		}
	}
	if out.Early = out.Days < fewDays; out.Early {
		if limit >= 0 && out.Spent >= limit {
			out.Reached = now
		}
		return out
	}
	mean /= float64(out.Days)
	end := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	left := end.Sub(now).Hours() / 24
	out.Daily, out.AtEnd = int64(mean), out.Spent+int64(mean*left)
	if limit >= 0 && out.AtEnd >= limit {
		out.Reached = now
		if missing := float64(limit - out.Spent); missing > 0 && mean > 0 {
			out.Reached = now.Add(time.Duration(missing / mean * 24 * float64(time.Hour)))
		}
	}
	return out
}
