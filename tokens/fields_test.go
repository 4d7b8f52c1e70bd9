package tokens

import (
	"os"
	"strings"
	"testing"
)

// classNames are those of the fields of Usage and Price.
var classNames = [classes]string{
	input: "Input", cached: "Cached", written: "CacheWrites", hourly: "HourWrites", audio: "Audio",
	images: "Images", video: "Images", cited: "Input", output: "Output", reasoning: "Reasoning",
	audioOutput: "AudioOutput", imageOutput: "ImageOutput", total: "Input and Output", calls: "Calls",
}

func TestTheGuideHasTheTableOfUsageFields(t *testing.T) {
	guide, err := os.ReadFile("../docs/tokens.md")
	if err != nil {
		t.Fatal(err)
	}
	const head = "| field of a usage | price class | within or beside | told by | source |\n|---|---|---|---|---|\n"
	_, table, found := strings.Cut(string(guide), head)
	if !found {
		t.Fatal("the guide has no table of the fields")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	lines := strings.Split(table, "\n")
	for i, row := range rows {
		share := "within"
		if row.share == beside {
			share = "beside"
		}
		want := "| `" + row.path + "` | " + classNames[row.class] + " | " + share + " | "
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("row %d of the guide does not begin %s", i+1, want)
		}
		if strings.Count(lines[i], "|") != 6 || strings.Contains(lines[i], "|  |") {
			t.Errorf("row %d of the guide lacks a service or a source: %s", i+1, lines[i])
		}
	}
	if len(lines) != len(rows) {
		t.Errorf("the guide has %d rows, and the code %d", len(lines), len(rows))
	}
}
