package browsertest

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/weir-go/weir/admin"
)

// renew writes the pictures of the guides anew:
//
//	go -C internal/proof/browsertest test . -run PicturesOfTheGuides -renew
var renew = flag.Bool("renew", false, "write the pictures of the guides, in docs/images")

// guidePictures draw the pictures of guides, by their names in docs/images.
var guidePictures = map[string]func(*testing.T) []byte{
	"playground-light":       func(t *testing.T) []byte { return playgroundAt31(t).view(1280, 940, "light") },
	"playground-dark":        func(t *testing.T) []byte { return playgroundAt31(t).view(1280, 940, "dark") },
	"playground-phone-light": func(t *testing.T) []byte { return playgroundAt31(t).view(390, 844, "light") },
	"playground-phone-dark":  func(t *testing.T) []byte { return playgroundAt31(t).view(390, 844, "dark") },
	"playground-replay": func(t *testing.T) []byte {
		b := playgroundAt31(t)
		b.chooseLog(fourWeekdays(t))
		b.until("it is replayed", replayDone)
		b.scheme("light")
		b.tall(1280)
		return b.part("#replay")
	},
	"operations-light": func(t *testing.T) []byte { return busyPage(t).view(1280, 1010, "light") },
	"operations-phone": func(t *testing.T) []byte { return busyPage(t).view(390, 844, "dark") },
	"operations-rule": func(t *testing.T) []byte {
		b := busyPage(t)
		b.openRow("rule-table", "per-client")
		b.scheme("light")
		b.tall(1280)
		return b.part(`section[aria-labelledby="rules"]`)
	},
	"operations-why": func(t *testing.T) []byte {
		b := busyPage(t)
		b.press("#ask input[value=request]")
		b.write("#ask input[name=path]", "/api/things")
		b.write("#ask input[name=address]", "203.0.113.77")
		b.press("#ask button")
		b.until("it is explained",
			`document.getElementById('reply').textContent.includes('It would be denied by rule per-client.')`)
		value[bool](b, `document.activeElement.blur(), true`)
		b.scheme("light")
		b.tall(1280)
		return b.part(`section[aria-labelledby="why"]`)
	},
	"simulate":       func(t *testing.T) []byte { return weekReport(t).view(1100, 1240, "light") },
	"simulate-phone": func(t *testing.T) []byte { return weekReport(t).view(390, 844, "dark") },
}

// guides are those whose pictures are drawn here.
var guides = []string{"operations.md", "playground.md", "simulate.md"}

// mostPicture is how many bytes a picture of a guide has at most.
const mostPicture = 60_000

func TestPicturesOfTheGuides(t *testing.T) {
	images, err := filepath.Abs("../../../docs/images") // tests change the working directory
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, guide := range guides {
		text, err := os.ReadFile(filepath.Join("../../../docs", guide))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`!\[[^\]]*\]\(images/([^)]*)\.png\)`).FindAllStringSubmatch(string(text), -1) {
			named = append(named, m[1])
			if guidePictures[m[1]] == nil {
				t.Errorf("%s shows images/%s.png, which no test draws", guide, m[1])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(guidePictures)) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(images, name+".png")
			if !slices.Contains(named, name) {
				t.Errorf("no guide shows %s", path)
			}
			small := small(t, guidePictures[name](t)) // in every run: what draws them may break
			if *renew {
				if err := os.WriteFile(path, small, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			info, err := os.Stat(path)
			switch {
			case err != nil:
				t.Errorf("%v: go -C internal/proof/browsertest test . -run PicturesOfTheGuides -renew", err)
			case info.Size() > mostPicture:
				t.Errorf("%s has %d bytes, want %d at most", path, info.Size(), mostPicture)
			}
		})
	}
}

// busyPage opens the page of a service of which one client asks too much. Rates are made up of its
// counts, and its past is made up: both would take minutes.
func busyPage(t *testing.T) *tab {
	t.Helper()
	s := newSite(t, admin.Options{Changes: true})
	s.visit(540, "GET", "/", "198.51.100.8")
	s.traffic()
	s.visit(120, "GET", "/api/things", "203.0.113.77")
	b := open(t, s)
	b.until("all is shown",
		`document.querySelectorAll('#top-table tbody tr').length > 5 && document.querySelectorAll('#denial-table tbody `+
			`tr').length > 5`)
	const ago = `{
		Allowed: Math.round(600 + 60 * Math.sin(i / 9) + 25 * Math.sin(i * 1.7)),
		Denied: i < 70 ? 3 + i % 3 : Math.round(i < 96 ? 260 - 30 * Math.sin(i) : 160 - 20 * Math.sin(i)),
	}`
	b.remember(120, ago, `[[250, 'policy weir.yaml: applied: rule "per-client": limit: fixed-window 9/1d → fixed-window `+
		`3/1d'], [118, 'rule log-in: ban 5/1d for 1h (ann: ticket 7)']]`)
	value[bool](b, `(() => {
		const now = latest(), before = structuredClone({...now, byName: undefined, byLimiter: undefined, classes: undefined, byClass: undefined});
		before.At -= 5000;
		for (const of of [...before.Limiters, ...before.Rules]) for (const name of Object.keys(of)) if (typeof of[name] === 'number') of[name] = 0;
		for (const of of before.Rules) of.Sources = {};
		kept.length = 0;
		keep(before);
		keep(now);
		const later = now.At - past.Times.at(-1); // the past ends now
		past.Times = past.Times.map(ms => ms + later);
		past.Marks = past.Marks.map(m => ({...m, At: m.At + later}));
		past.Rules[0].Allowed = past.All.Allowed.map(n => Math.round(n / 6));
		past.Rules[0].Denied = past.All.Denied;
		remember({...past});
		show();
		return true;
	})()`)
	b.drawn()
	return b
}

// part returns a picture of an element.
func (b *tab) part(selector string) []byte {
	b.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.Screenshot(chromedp.CSS(selector), chromedp.NodeVisible))
	if err != nil {
		b.Fatal(err)
	}
	return picture
}

// playgroundAt31 opens the playground, and stops it at 31 seconds, so that its picture is the same each time.
func playgroundAt31(t *testing.T) *tab {
	t.Helper()
	b := openPlayground(t, "")
	b.press("#pause")
	b.press(".presets a[aria-current]")
	b.until("30 seconds have passed", clockOfPage+` === 30e6`)
	b.press(`[data-by="1000000"]`) // at 30 seconds, windows turn
	b.until("another has passed", clockOfPage+` === 31e6`)
	denied := false
	for i := range 9 {
		value[bool](b, `document.querySelector('.panel:nth-child(`+strconv.Itoa(i+1)+`) h3 button').click(), true`)
		b.drawn()
		if denied = value[bool](b, `document.getElementById('verdict').textContent.startsWith('429')`); denied {
			break
		}
	}
	if !denied {
		t.Error("no panel shows a denial")
	}
	value[bool](b, `document.activeElement.blur(), scrollTo(0, 0), true`)
	return b
}

// fourWeekdays is a log as a small service has it: more by day than by night, few clients that ask for much.
func fourWeekdays(t *testing.T) string {
	t.Helper()
	random := rand.New(rand.NewPCG(30, 1))
	begun := time.Date(2026, 11, 16, 7, 20, 0, 0, time.UTC)
	var log strings.Builder
	for at := begun; at.Before(begun.Add(4 * 24 * time.Hour)); {
		rate := 1.2 + math.Sin(float64(at.Hour()*60+at.Minute()-480)/720*math.Pi) // 0.2 to 2.2
		at = at.Add(time.Duration(random.ExpFloat64() / rate * 60 * float64(time.Second)))
		client, n := int(400*math.Pow(random.Float64(), 2)), 1
		if client < 3 && random.IntN(40) == 0 {
			n = 20 + random.IntN(50)
		}
		for i := range n {
			fmt.Fprintf(&log, "203.0.%d.%d - - [%s] \"GET /things HTTP/1.1\" 200 512 \"-\" \"-\"\n", 100+client/200, client%200,
				at.Add(time.Duration(i)*400*time.Millisecond).Format("02/Jan/2006:15:04:05 -0700"))
		}
	}
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func weekReport(t *testing.T) *tab {
	t.Helper()
	return openReport(t, "--limit", "30/minute", fourWeekdays(t))
}

// view returns a picture of a window.
func (b *tab) view(width, height int64, scheme string) []byte {
	b.Helper()
	b.scheme(scheme)
	command(b, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
	b.do("move the mouse away", chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 1, 1))
	b.drawn()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	return picture
}

// mostColours is how many colours a picture of a guide has. Pages have few, and shades of them
// around letters.
const mostColours = 40

// small returns a picture with few colours, so that it has few bytes.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	whole, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	bounds := whole.Bounds()
	counts := make(map[color.RGBA]int)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[color.RGBAModel.Convert(whole.At(x, y)).(color.RGBA)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		// so that the picture is the same each time
		return cmp.Or(cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	off := func(a, b color.RGBA) int {
		r, g, bl := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
		return r*r + g*g + bl*bl
	}
	// Each colour of the palette is the one that is missed most: by how many points, and how far from those before.
	var palette color.Palette
	missed := make([]int, len(all))
	for i := range missed {
		missed[i] = 1 << 20
	}
	for range min(mostColours, len(all)) {
		next := 0
		for i, c := range all {
			if missed[i]*min(counts[c], 1000) > missed[next]*min(counts[all[next]], 1000) {
				next = i
			}
		}
		palette = append(palette, all[next])
		for i, c := range all {
			missed[i] = min(missed[i], off(c, all[next]))
		}
	}
	index := make(map[color.RGBA]uint8)
	for c := range counts {
		index[c] = uint8(palette.Index(c))
	}
	paletted := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			paletted.SetColorIndex(x, y, index[color.RGBAModel.Convert(whole.At(x, y)).(color.RGBA)])
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, paletted); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tall makes the window so wide, and as high as the page, and waits until it is drawn.
func (b *tab) tall(width int64) {
	b.Helper()
	b.size(width)
	b.drawn()
	height := value[int64](b, `document.documentElement.scrollHeight`)
	command(b, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
	b.drawn()
}

// keep writes a picture to the artefacts.
func (b *tab) keep(name string, picture []byte, err error) {
	b.Helper()
	if err == nil {
		err = os.WriteFile(filepath.Join(pictures, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}
