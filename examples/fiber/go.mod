module github.com/weir-go/weir/examples/fiber

go 1.26.0

require (
	github.com/gofiber/fiber/v3 v3.4.0
	github.com/weir-go/weir v0.0.0
	github.com/weir-go/weir/fibermw v0.0.0
)

require (
	github.com/andybalholm/brotli v1.2.7 // indirect
	github.com/gofiber/schema v1.8.0 // indirect
	github.com/gofiber/utils/v2 v2.1.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.20.2 // indirect
	github.com/mattn/go-colorable v0.1.15 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/tinylib/msgp v1.6.4 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasthttp v1.72.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace (
	github.com/weir-go/weir => ../..
	github.com/weir-go/weir/fibermw => ../../fibermw
)
