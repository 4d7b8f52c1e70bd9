package browsertest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// pictures is the directory for pictures, "" for none.
var pictures string

func init() {
	flag.Func("pictures", "write pictures of the pages to this `directory`", func(dir string) (err error) {
		if pictures, err = filepath.Abs(dir); err != nil { // tests change the working directory
			return err
		}
		return os.MkdirAll(pictures, 0o755)
	})
}

// shot writes a picture of the whole page, light and dark, wide and narrow.
func (b *tab) shot(name string) {
	b.Helper()
	for _, width := range []int64{1400, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.size(width)
			b.scheme(scheme)
			b.fits(width)
			if pictures == "" {
				continue
			}
			picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			if err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(pictures, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture,
				0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	b.size(1280)
}

// shotWhole is shot in a window as high as the page, for pages with something fixed.
func (b *tab) shotWhole(name string) {
	b.Helper()
	for _, width := range []int64{1400, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.size(width)
			b.scheme(scheme)
			b.fits(width)
			if pictures == "" {
				continue
			}
			height := value[int64](b, `document.documentElement.scrollHeight`)
			command(b, emulation.SetDeviceMetricsOverride,
				emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
			b.do("move the mouse away", chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 1, 1))
			b.drawn()
			b.shotDialog(fmt.Sprintf("%s-%d-%s", name, width, scheme))
		}
	}
}

// scheme makes it day or night.
func (b *tab) scheme(name string) {
	b.Helper()
	command(b, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// drawn waits until the window has been drawn anew.
func (b *tab) drawn() {
	b.Helper()
	promised[bool](b, `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => `+
		`r(true), 50))))`)
}

// size makes the window so wide.
func (b *tab) size(width int64) {
	b.Helper()
	command(b, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 600})
}

// fits reports what is wider than the window.
func (b *tab) fits(width int64) {
	b.Helper()
	if got := value[int64](b, `document.documentElement.scrollWidth`); got > width {
		b.Errorf("the page is %d wide in a window of %d: %s", got, width,
			value[string](b, fmt.Sprintf(
				`[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > %d + 1 && `+
					`!e.closest('thead')).map(e => e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 30)).slice(0, `+
					`5).join('; ')`, width)))
	}
}

// shotDialog writes a picture of what is in the window.
func (b *tab) shotDialog(name string) {
	b.Helper()
	if pictures == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(pictures, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}
