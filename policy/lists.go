package policy

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weir-go/weir/keyfuncs"
)

// addressLists is the lists section: lists of networks, in the order of the file and by name.
type addressLists struct {
	inOrder []*addressList
	byName  map[string]*addressList
}

// addressList is a named list of networks.
type addressList struct {
	word
	ranges []string
}

func (lists *addressLists) read(d *decoder, n *node) {
	if n.Kind != mapping {
		d.mistake(n, "must be a map of names to lists of addresses (got %s)", n.Describe())
		return
	}
	lists.byName = make(map[string]*addressList)
	for _, e := range n.Entries {
		l := &addressList{word: word{e.Name.Text, e.Name}}
		if e.Name.Kind != scalar || !isWord(l.text, 40) || e.Name.IsNull() ||
			e.Name.IsNumberOrBoolean() {
			d.mistake(e.Name, "the name of a list must have 1 to 40 letters, digits, - and _, "+
				"in quotes if it is a number (got %s)", e.Name.Describe())
			continue
		}
		if other := lists.byName[l.text]; other != nil {
			d.mistake(e.Name, "list %s is here twice, also in line %d: remove one", quote(l.text),
				other.at.Line)
			continue
		}
		lists.inOrder, lists.byName[l.text] = append(lists.inOrder, l), l
		d.in(l.text, func() { l.read(d, e.Value) })
	}
}

// read reads the addresses of a list.
func (l *addressList) read(d *decoder, n *node) {
	if n.IsNull() {
		d.mistake(n, "has no value: write a list of addresses or remove it")
		return
	}
	d.each(n, func(item *node) {
		text, ok := d.text(item)
		if !ok {
			return
		}
		if _, err := netip.ParseAddr(text); err == nil && !strings.Contains(text, "%") {
			l.ranges = append(l.ranges, text)
			return
		}
		if _, err := keyfuncs.Inside(keyfuncs.Peer, []string{text},
			keyfuncs.Constant[*http.Request]("")); err != nil {
			d.mistake(item, "%s", withoutPrefix(err.Error(), "keyfuncs: "))
			return
		}
		l.ranges = append(l.ranges, text)
	})
}

// changes calls add for each list that was before or is now in lists.
func (lists *addressLists) changes(before *addressLists, add func(name, before, now string)) {
	for _, l := range before.inOrder {
		if lists.byName[l.text] == nil {
			add(l.text, l.describe(), "")
		}
	}
	for _, l := range lists.inOrder {
		was := ""
		if other := before.byName[l.text]; other != nil {
			was = other.describe()
			if was == l.describe() && !slices.Equal(other.ranges, l.ranges) {
				was += " of before"
			}
		}
		add(l.text, was, l.describe())
	}
}

func (l *addressList) describe() string {
	if len(l.ranges) == 1 {
		return "1 range"
	}
	return fmt.Sprintf("%d ranges", len(l.ranges))
}
