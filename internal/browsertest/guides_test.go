package browsertest

import (
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/emulation"
)

// tall makes the window so wide, and as high as the page, and waits until it is drawn.
func (b *tab) tall(width int64) {
	b.Helper()
	b.size(width)
	b.drawn()
	height := value[int64](b, `document.documentElement.scrollHeight`)
	command(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
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
