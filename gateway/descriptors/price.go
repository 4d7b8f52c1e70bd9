package descriptors

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/files/document"
)

// A budget is a limit with a name. Descriptors below it charge it, each with a weight: how many units
// of the budget a hit costs. Weights are exact in thousandths, and a charge is rounded up. A
// weight may be the name of a price, which changes at dates of the file.

// price is how much a hit costs.
type price struct {
	name  string // "": a number stands in the file
	steps []step // in order; the first has no date
}

type step struct {
	from        time.Time
	thousandths int64
}

const (
	maxWeight = 1_000_000 // units of a hit
	maxPrices = 10_000
	maxSteps  = 100 // of a price
)

// at returns the thousandths of a unit that a hit costs at an instant.
func (p *price) at(now time.Time) int64 {
	last := len(p.steps) - 1
	for last > 0 && now.Before(p.steps[last].from) {
		last--
	}
	return p.steps[last].thousandths
}

// cost returns what hits cost at an instant, rounded up, and at most maxHits. What a refund returns
// is rounded down: otherwise hits that are refunded one by one return more than they cost together.
func (p *price) cost(hits int64, refund bool, now time.Time) int64 {
	high, low := bits.Mul64(uint64(hits), uint64(p.at(now)))
	if high > 0 || low > maxHits*1000 {
		return maxHits
	}
	if !refund {
		low += 999
	}
	return int64(low / 1000)
}

// String returns p as people read it, such as "2.5, 3 from 2027-01-01".
func (p *price) String() string {
	var b strings.Builder
	for i, s := range p.steps {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.FormatInt(s.thousandths/1000, 10))
		if rest := s.thousandths % 1000; rest > 0 {
			b.WriteString("." + strings.TrimRight(fmt.Sprintf("%03d", rest), "0"))
		}
		if i > 0 {
			b.WriteString(" from " + strings.TrimSuffix(s.from.Format(time.RFC3339), "T00:00:00Z"))
		}
	}
	return b.String()
}

// parseWeight returns the thousandths of a weight such as 2.5. It takes no other form of a number.
func parseWeight(text string) (thousandths int64, ok bool) {
	whole, fraction, dot := strings.Cut(text, ".")
	if dot && fraction == "" || len(fraction) > 3 || whole == "" || len(whole) > 7 {
		return 0, false
	}
	digits := whole + fraction + strings.Repeat("0", 3-len(fraction))
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	thousandths, err := strconv.ParseInt(digits, 10, 64)
	return thousandths, err == nil && thousandths <= maxWeight*1000
}

// isNumber reports whether a name reads as a number, also as one that no weight may have, such as -1.
func isNumber(name string) bool {
	_, err := strconv.ParseFloat(name, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// prices are those of all files, by name.
type prices map[string]*price

// read reads a map of prices. r gets its mistakes.
func (ps prices) read(r *reader, n *document.Node) {
	if n.Kind != document.Map {
		r.mistake(n, "prices must be a map of names and weights (got %s)", n.Describe())
		return
	}
	for _, e := range n.Entries {
		name := e.Name.Text
		switch {
		case e.Name.Kind != document.Scalar || name == "" || isNumber(name):
			r.mistake(e.Name, "prices: a name must be a text that is no number (got %s)", e.Name.Describe())
		case ps[name] != nil:
			r.mistake(e.Name, "prices: %s is here twice: remove one", document.Quote(name))
		case len(ps) == maxPrices:
			r.mistake(e.Name, "prices: there are more than %d", maxPrices)
			return
		default:
			ps[name] = readPrice(r, name, e.Value)
		}
	}
}

// readPrice reads a weight, or a list of weights that hold from a date on.
func readPrice(r *reader, name string, n *document.Node) *price {
	if n.Kind != document.List {
		return &price{name, []step{{thousandths: readWeight(r, n)}}}
	}
	p := &price{name: name}
	for i, item := range n.Items {
		var s step
		seen := r.fields(item, fields{
			"weight": func(n *document.Node) { s.thousandths = readWeight(r, n) },
			"from":   func(n *document.Node) { s.from = readDate(r, n) },
		})
		switch {
		case seen == nil:
		case seen["weight"] == nil:
			r.mistake(item, "weight is required: add it")
		case i == 0 && seen["from"] != nil:
			r.mistake(seen["from"], "the first weight of a price has no date: it holds until the next one")
		case i > 0 && seen["from"] == nil:
			r.mistake(item, "from is required: since when the weight holds, such as 2027-01-01")
		case i > 0 && !s.from.IsZero() && !s.from.After(p.steps[i-1].from):
			r.mistake(seen["from"], "from must be later than that of the weight before")
		case i == maxSteps:
			r.mistake(item, "a price has at most %d weights", maxSteps)
		}
		p.steps = append(p.steps, s)
	}
	if len(p.steps) == 0 {
		r.mistake(n, "a price needs a weight: add one")
		p.steps = []step{{}}
	}
	return p
}

func readWeight(r *reader, n *document.Node) int64 {
	thousandths, ok := parseWeight(n.Text)
	if n.Kind != document.Scalar || !ok {
		r.mistake(n, "weight must be a number from 0 to %d with at most three decimals, such as 2.5 (got %s)",
			maxWeight, n.Describe())
	}
	return thousandths
}

// date reads a day in UTC, or an instant.
func readDate(r *reader, n *document.Node) time.Time {
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(form, n.Text); err == nil && n.Kind == document.Scalar {
			return t.UTC()
		}
	}
	r.mistake(n, "from must be a day in UTC, such as 2027-01-01, or an instant, "+
		"such as 2027-01-01T09:00:00+02:00 (got %s)", n.Describe())
	return time.Time{}
}

// of reads the weight of a descriptor: a number or the name of a price.
func (ps prices) of(r *reader, n *document.Node) *price {
	if p := ps[n.Text]; p != nil && n.Kind == document.Scalar {
		return p
	}
	if thousandths, ok := parseWeight(n.Text); ok && n.Kind == document.Scalar {
		return &price{steps: []step{{thousandths: thousandths}}}
	}
	names := make([]string, 0, len(ps))
	for name := range ps {
		names = append(names, name)
	}
	slices.Sort(names)
	known := "no file has prices"
	if len(names) > 0 {
		known = "prices are " + strings.Join(names[:min(len(names), 10)], ", ")
	}
	r.mistake(n, "weight must be a number from 0 to %d with at most three decimals, such as 2.5, "+
		"or the name of a price (got %s): %s", maxWeight, n.Describe(), known)
	return &price{steps: []step{{}}}
}

// charge makes of a rule that charges the budget with a name: one of those above it.
func charge(r *reader, of *rule, n *document.Node, name string, weight *price) {
	for i := len(r.above) - 1; i >= 0; i-- {
		budget := r.above[i]
		if budget == nil || budget.name != name {
			continue
		}
		for j := range budget.limits {
			if budget.limits[j].lends > 0 {
				r.mistake(n, "budget: %s is a limit in flight, which has no units to spend", document.Quote(name))
				return
			}
		}
		if budget.unlimited || budget.price != nil {
			r.mistake(n, "budget: %s is no limit of its own: name one above it", document.Quote(name))
			return
		}
		of.name, of.limits, of.shadow = name, budget.limits, of.shadow || budget.shadow
		of.price, of.depth = weight, i+1
		return
	}
	r.mistake(n, "budget: no descriptor above has a limit with the name %s: write name: %s into its rate_limit",
		document.Quote(name), name)
}
