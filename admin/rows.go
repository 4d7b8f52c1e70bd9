package admin

import (
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
)

// row is a key on the page. Buttons identify it by an opaque id, so a page with masked keys can
// forgive them.
type row struct {
	limiter, rule, key string
	limit              limits.Limit // limit when the row was made; zero: unknown
}

// rows remembers rows that were shown recently. Its memory is bounded: it holds two generations of
// at most maxRows each, and drops the older one within an hour.
type rows struct {
	mask     *masker
	limiters *limiters // only their keys have ids

	mu         sync.Mutex
	young, old map[string]row
	turned     time.Time
}

const (
	maxRows    = 4096
	maxRowKey  = 1024 // bytes; a row with a longer key has no id
	rowsLiving = 30 * time.Minute
)

func newRows(mask *masker, limiters *limiters) *rows {
	return &rows{
		mask: mask, limiters: limiters, young: make(map[string]row), turned: time.Now(),
	}
}

// id returns the id of r and remembers r with its latest known limit. It returns "" if the key is
// too long.
func (rs *rows) id(r row, now time.Time) string {
	if len(r.key) > maxRowKey {
		return ""
	}
	id := rs.mask.digest("row", r.limiter, r.rule, r.key)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	known, isYoung := rs.young[id]
	if !isYoung {
		known = rs.old[id]
	}
	if r.limit == (limits.Limit{}) {
		r.limit = known.limit
	}
	if !isYoung && len(rs.young) >= maxRows || now.Sub(rs.turned) >= rowsLiving {
		rs.old, rs.young, rs.turned = rs.young, make(map[string]row), now
	}
	rs.young[id] = r
	return id
}

// changeable returns the id of a row that stats knows. It returns "" if the page cannot change the
// row: its key was cut, or its limiter is not in Sources.
func (rs *rows) changeable(r row, cut bool, now time.Time) string {
	if cut || rs.limiters.byName[r.limiter] == nil {
		return ""
	}
	return rs.id(r, now)
}

// forgivable returns the id of a row by which its key can be forgiven. It returns "" if the limit
// cannot be reset, or if the key is too long for a row.
func (rs *rows) forgivable(r row) string {
	if r.limit.Algorithm().Holds() {
		return ""
	}
	return rs.id(r, time.Now())
}

// named returns the row that a request identifies by id, or by limiter, rule and key.
func (rs *rows) named(id, limiter, rule string, key *string) (row, error) {
	if id != "" {
		r, ok := rs.find(id)
		if !ok {
			return row{},
				&failure{http.StatusNotFound, "this row is too old: look again, or type the key"}
		}
		return r, nil
	}
	if key == nil {
		return row{}, &failure{http.StatusBadRequest, "say which key, or which request"}
	}
	return row{limiter: limiter, rule: rule, key: *key}, nil
}

// find returns the row of an id, if it was shown recently.
func (rs *rows) find(id string) (row, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r, ok := rs.young[id]; ok {
		return r, true
	}
	r, ok := rs.old[id]
	return r, ok
}
