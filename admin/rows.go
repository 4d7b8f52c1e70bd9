package admin

import (
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
	mask *masker

	mu         sync.Mutex
	young, old map[string]row
	turned     time.Time
}

const (
	maxRows    = 4096
	maxRowKey  = 1024 // bytes; a row with a longer key has no id
	rowsLiving = 30 * time.Minute
)

func newRows(mask *masker) *rows {
	return &rows{mask: mask, young: make(map[string]row), turned: time.Now()}
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
