package main

import (
	"os"
	"path/filepath"
	"testing"
)

// rows has a client that obeys, one that does not, and one that gives up.
const rows = `# some

| language | client | release | answer | case | requests | waits, ms | told, s | end | saw |
|---|---|---|---|---|---|---|---|---|---|
| Go | a | 1 | default | 429 | 3 | 2001 2003 | 2 2 2 | ends | answer 429 |
| Go | a | 1 | default | fields | 2 | 1002 | 1 1 | cut off after the second |  |
| Go | a | 1 | default | 503 | 2 | 3001 | 3 1 | ends | answer 503 |
| Go | a | 1 | default | hour | 1 |  | 3600 | cut off after 5 s |  |
| Go | b | 1 | default | 429 | 900 | 1 0 1 | 2 2 2 2 | cut off after 5 s |  |
| Go | b | 1 | default | fields | 2 | 1 | 1 1 | cut off after the second |  |
| Go | b | 1 | default | 503 | 3 | 500 700 | 3 1 1 | ends | answer 503 |
| Go | b | 1 | default | hour | 2 | 1 | 3600 3600 | ends |  |
| Lua | a | 1 | default | 429 | 1 |  | 2 | ends | answer 429 |
| Lua | a | 1 | default | 503 | 1 |  | 3 | ends | answer 503 |
`

func TestRowsBecomeWhatAClientDoes(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "some.md"), []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	read, err := read(folder)
	if err != nil {
		t.Fatal(err)
	}
	all := gather(read)
	for i, want := range [][4]string{
		{"3: 2.0, 2.0 s", "Retry-After", "waits", "2: 3.0 s"},
		{"**900 in 5 s, no end**", "none", "asks at once", "3: 0.5, 0.7 s, early"},
		{"1", "–", "–", "1"},
	} {
		c := all[i]
		if got := [4]string{c.denied.asked(), c.reads(), c.anHour(), c.full.asked()}; got != want {
			t.Errorf("%s: got %q, want %q", c.among(all), got, want)
		}
	}
}

func TestTheGuideHasTheRowsOfTheResults(t *testing.T) {
	err := write("../../..", func(guide string, want []byte, _ os.FileMode) error {
		got, err := os.ReadFile(guide)
		if err == nil && string(got) != string(want) {
			t.Error("docs/clients.md is not what go run ./clients/table writes")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
