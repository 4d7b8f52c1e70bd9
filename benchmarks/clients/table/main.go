// Table writes the tables of docs/clients.md from the rows in benchmarks/results/clients. Run it in
// the folder benchmarks: go run ./clients/table
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func main() {
	if err := write("..", os.WriteFile); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes the guide of the repository at root by put.
func write(root string, put func(string, []byte, os.FileMode) error) error {
	rows, err := read(filepath.Join(root, "benchmarks", "results", "clients"))
	if err != nil {
		return err
	}
	guide := filepath.Join(root, "docs", "clients.md")
	text, err := os.ReadFile(guide)
	if err != nil {
		return err
	}
	obeyed, err := vectors(filepath.Join(root, "benchmarks", "results", "clients", vectorsFile))
	if err != nil {
		return err
	}
	after := string(text)
	for name, content := range map[string]string{
		"clients": clients(rows), "apis": apis(rows), "early": early(rows), "hour": hours(rows),
		"vectors": obeyed,
	} {
		if after, err = between(after, name, content); err != nil {
			return err
		}
	}
	return put(guide, []byte(after), 0o644)
}

// between puts content between the two marks of name in text.
func between(text, name, content string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", errors.New("docs/clients.md lacks " + begin + " or " + end)
	}
	return before + begin + content + end + after, nil
}

// Row is what a client did in one case. The server beside this program says what the columns are.
type row struct {
	language, client, release, answer, kind string

	requests int
	waits    []int // milliseconds
	told     []int // seconds
	end, saw string
}

// read returns the rows of all files of the folder, in the order of their names.
func read(folder string) ([]row, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, file := range files {
		if filepath.Base(file) == vectorsFile { // has a table of its own
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(strings.TrimSpace(line), "|")
			if len(cells) != 12 || strings.HasPrefix(line, "|---") ||
				strings.HasPrefix(line, "| language") {
				continue
			}
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			requests, err := strconv.Atoi(cells[6])
			if err != nil {
				return nil, fmt.Errorf("%s: %q is no number of requests", file, cells[6])
			}
			rows = append(rows, row{cells[1], cells[2], cells[3], cells[4], cells[5], requests,
				numbers(cells[7]), numbers(cells[8]), cells[9], cells[10]})
		}
	}
	return rows, nil
}

func numbers(cell string) (n []int) {
	for word := range strings.FieldsSeq(cell) {
		if i, err := strconv.Atoi(word); err == nil {
			n = append(n, i)
		}
	}
	return n
}

// Client is what a client did in all cases of the default answer.
type client struct{ denied, fields, full, hour, bare *row }

func gather(rows []row) (all []client) {
	place := map[[2]string]int{}
	for i := range rows {
		r := &rows[i]
		if r.answer != "default" {
			continue
		}
		at, known := place[[2]string{r.language, r.client}]
		if !known {
			at = len(all)
			place[[2]string{r.language, r.client}] = at
			all = append(all, client{})
		}
		switch r.kind {
		case "429":
			all[at].denied = r
		case "fields":
			all[at].fields = r
		case "503":
			all[at].full = r
		case "hour":
			all[at].hour = r
		case "bare":
			all[at].bare = r
		}
	}
	return slices.DeleteFunc(all, func(c client) bool { return c.denied == nil || c.full == nil })
}

// clients returns a table for each language.
func clients(rows []row) string {
	all := gather(rows)
	slices.SortStableFunc(all, func(a, b client) int {
		return cmp.Or(cmp.Compare(a.denied.language, b.denied.language),
			cmp.Compare(short(a.denied.client), short(b.denied.client)))
	})
	languages := 0
	var b strings.Builder
	for i, c := range all {
		if i == 0 || c.denied.language != all[i-1].denied.language {
			languages++
			fmt.Fprintf(&b, "\n**%s**\n\n| client | 429, 2 s | reads | 3600 s "+
				"| its caller sees of the 429 | 503 | of the 503 |\n"+
				"|---|---|---|---|---|---|---|\n", c.denied.language)
		}
		fmt.Fprintln(&b, "|", strings.Join([]string{short(c.denied.client) + " " + c.denied.release,
			c.denied.asked(), c.reads(), c.anHour(), brief(c.denied),
			c.full.asked(), brief(c.full)}, " | "), "|")
	}
	return fmt.Sprintf("%d clients, %d languages and command lines.\n%s\n",
		len(all), languages-1, b.String())
}

// early returns the clients that repeat a 503 before they were told to, by how often they ask.
func early(rows []row) string {
	var at, soon []string
	all := gather(rows)
	for _, c := range all {
		name := c.among(all)
		switch {
		case len(c.full.waits) == 0:
		case c.full.endless():
			at = append(at, fmt.Sprintf("**%s** (without an end)", name))
		case c.full.atOnce():
			at = append(at, fmt.Sprintf("%s (%d)", name, c.full.requests))
		case c.full.early() != "":
			soon = append(soon, fmt.Sprintf("%s (%d from %.1f s)", name, c.full.requests,
				float64(c.full.waits[0])/1000))
		}
	}
	return fmt.Sprintf("\n- At once: %s.\n- Early, with the first wait: %s.\n\n",
		listed(at), listed(soon))
}

// hours returns what clients do that are told to come back in an hour.
func hours(rows []row) string {
	said := map[string][]string{}
	all := gather(rows)
	for _, c := range all {
		if c.hour == nil {
			continue
		}
		does, _, _ := strings.Cut(c.anHour(), " ")
		if does == "asks" && c.reads() != "none" {
			does = "obeys less"
		}
		name := c.among(all)
		said[does] = append(said[does], name)
		if does == "waits" && c.bare != nil {
			switch {
			case c.bare.requests == 1 && c.bare.end == "ends":
				said["bare fails"] = append(said["bare fails"], name)
			case c.bare.requests > 1:
				said["bare asks"] = append(said["bare asks"],
					fmt.Sprintf("%s (%.1f s)", name, float64(c.bare.waits[0])/1000))
			default:
				said["bare waits"] = append(said["bare waits"], name)
			}
		}
	}
	var b strings.Builder
	for _, does := range [][2]string{
		{"waits", "Wait, for more than the 5 s that were watched"},
		{"bare fails", "Of these, fail at once under `MaxRetryAfter`"},
		{"bare asks", "Of these, come back under `MaxRetryAfter`, with the first wait"},
		{"bare waits", "Of these, wait all the same"},
		{"gives", "Give up"},
		{"obeys less", "Obey 2 s and not 3,600 s: they come back early"},
		{"asks", "Come back early, after a wait of their own"},
	} {
		if len(said[does[0]]) > 0 {
			fmt.Fprintf(&b, "\n- %s: %s.", does[1], listed(said[does[0]]))
		}
	}
	return b.String() + "\n\n"
}

// listed returns names in their order, and each once.
func listed(names []string) string {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Compare(strings.Trim(a, "*@"), strings.Trim(b, "*@"))
	})
	return strings.Join(names, ", ")
}

// among returns the name of c, with its language if another client of all has the same name.
func (c client) among(all []client) string {
	for _, other := range all {
		if other.denied.client == c.denied.client && other.denied.language != c.denied.language {
			return c.denied.client + " of " + c.denied.language
		}
	}
	return short(c.denied.client)
}

// short leaves the host of a module of Go out.
func short(name string) string { return strings.TrimPrefix(name, "github.com/") }

// asked returns how often a client asked, and after which waits.
func (r *row) asked() string {
	switch {
	case r.requests == 1 && r.end != "ends":
		return "1, waits for longer than watched"
	case r.requests == 1:
		return "1"
	case r.endless():
		took := strings.TrimPrefix(r.end, "cut off after ")
		return fmt.Sprintf("**%d in %s, no end**", r.requests, took)
	case r.atOnce():
		return fmt.Sprintf("%d at once", r.requests)
	}
	var waits []string
	for _, wait := range r.waits[:min(4, len(r.waits))] {
		waits = append(waits, fmt.Sprintf("%.1f", float64(wait)/1000))
	}
	if len(r.waits) > 4 {
		waits = append(waits, "…")
	}
	count := strconv.Itoa(r.requests)
	if r.end != "ends" {
		count += " and more"
	}
	return fmt.Sprintf("%s: %s s%s", count, strings.Join(waits, ", "), r.early())
}

// atOnce reports whether a client asks again without a wait that is worth the name.
func (r *row) atOnce() bool {
	total := 0
	for _, wait := range r.waits {
		total += wait
	}
	return r.requests > 1 && total < 100*len(r.waits)
}

// endless reports whether a client does so until it is cut off.
func (r *row) endless() bool { return r.atOnce() && r.end != "ends" }

// early says so if a client of a 503 comes before it was told to.
func (r *row) early() string {
	if r.kind != "503" || r.atOnce() {
		return ""
	}
	for i, wait := range r.waits {
		if i < len(r.told) && wait < r.told[i]*1000-100 {
			return ", early"
		}
	}
	return ""
}

// reads returns which field the wait came from: in the case "fields" they differ.
func (c client) reads() string {
	if c.denied.requests == 1 && c.denied.end == "ends" {
		return "–"
	}
	if len(c.denied.waits) == 0 || c.fields == nil || len(c.fields.waits) == 0 {
		return "unknown"
	}
	first, apart := c.denied.waits[0], c.fields.waits[0]
	near := func(more int) bool {
		return first > 1900 && max(apart-first-more, first+more-apart) < 450
	}
	switch {
	case near(-1000):
		return "Retry-After"
	case near(1000):
		return "RateLimit"
	case near(2000):
		return "retry_after of the body"
	case c.hour != nil && c.hour.requests == 1 && c.hour.end != "ends":
		return "a wait, and adds its own"
	}
	return "none"
}

// anHour returns what a client does that is told to come back in an hour.
func (c client) anHour() string {
	switch {
	case c.hour == nil:
		return "–"
	case c.hour.requests > 1 && c.hour.waits[0] < 60:
		return "asks at once"
	case c.hour.requests > 1:
		return fmt.Sprintf("asks after %.1f s", float64(c.hour.waits[0])/1000)
	case c.hour.end == "ends":
		return "gives up"
	}
	return "waits"
}

// brief returns what the caller saw, in few words.
func brief(r *row) string {
	saw := r.saw
	if saw == "" {
		return "not watched so long"
	}
	saw = strings.NewReplacer(`\"`, `'`, "*client.", "*twilio-go/client.").Replace(saw)
	if r := []rune(saw); len(r) > 72 {
		saw = string(r[:72]) + "…"
	}
	if !utf8.ValidString(saw) {
		saw = strings.ToValidUTF8(saw, "")
	}
	return "`" + saw + "`"
}

// apiOf names the API of clients that were asked with other answers, by a part of their names.
var apiOf = [][2]string{
	{"stripe", "Stripe"}, {"slack", "Slack"}, {"telegr", "Telegram"}, {"aiogram", "Telegram"},
	{"grammy", "Telegram"}, {"telebot", "Telegram"}, {"TelegramBot", "Telegram"},
	{"teloxide", "Telegram"}, {"disco", "Discord"}, {"disgo", "Discord"},
	{"twilight", "Discord"}, {"hopify", "Shopify"}, {"notion", "Notion"},
	{"go-github", "GitHub"}, {"PyGithub", "GitHub"}, {"github3", "GitHub"},
	{"octo", "GitHub"},
	{"gitbeaker", "GitLab"}, {"itlab", "GitLab"}, {"hubspot", "HubSpot"},
	{"twilio", "Twilio"}, {"anthropic", "Anthropic"}, {"openai", "OpenAI"},
	{"hcloud", "Hetzner"},
}

// apis returns a table of the clients of some APIs, with every answer that they were asked with.
func apis(rows []row) string {
	type line struct {
		api string
		*row
	}
	var lines []line
	for i := range rows {
		r := &rows[i]
		if r.kind != "429" && (r.kind != "bare" || r.answer == "default") {
			continue
		}
		name := strings.TrimPrefix(r.client, "github.com/")
		name = strings.TrimPrefix(name, "gitlab.com/")
		for _, pair := range apiOf {
			if strings.Contains(name, pair[0]) ||
				pair[0] == "itlab" && strings.HasPrefix(r.client, "gitlab.com/") {
				lines = append(lines, line{pair[1], r})
				break
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.api, b.api), cmp.Compare(a.language, b.language),
			cmp.Compare(a.client, b.client),
			cmp.Compare(a.asWhat(), b.asWhat()))
	})
	var b strings.Builder
	fmt.Fprint(&b, "\n| API | client | in | answer | requests | its caller sees |\n"+
		"|---|---|---|---|---|---|\n")
	for _, l := range lines {
		fmt.Fprintln(&b, "|", strings.Join([]string{l.api, short(l.client) + " " + l.release,
			l.language, cmp.Or(l.asWhat(), "default"), l.asked(), brief(l.row)}, " | "), "|")
	}
	return b.String() + "\n"
}

// asWhat returns the answer that a client got, "" for the default.
func (r *row) asWhat() string {
	switch {
	case r.kind == "bare":
		return r.answer + ", an hour"
	case r.answer == "default":
		return ""
	}
	return r.answer
}

// vectorsFile is what vectors.sh has written.
const vectorsFile = "vectors.md"

// vectors returns the table of a file that vectors.sh has written.
func vectors(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "|") {
			b.WriteString(line)
		}
	}
	b.WriteByte('\n')
	return b.String(), nil
}
