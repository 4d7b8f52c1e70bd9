// The module of Fiber's storage for Redis names many others, which no other program here needs. So
// this one has a module file of its own: see profile.yaml.
//
//go:build ignore

// Fiber serves a page of Fiber behind its own middleware, which counts in Redis if STORE is set.
package main

import (
	"log"
	"os"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/limiter"
	"github.com/gofiber/storage/redis/v3"
)

func main() {
	config := limiter.Config{Max: 10, Expiration: 2 * time.Second}
	if store := os.Getenv("STORE"); store != "" {
		config.Storage = redis.New(redis.Config{URL: store})
	}
	app := fiber.New()
	app.Use(limiter.New(config))
	app.All("/", func(c fiber.Ctx) error { return c.SendString("Hello.\n") })
	log.Fatal(app.Listen("127.0.0.1:"+os.Getenv("PORT"), fiber.ListenConfig{DisableStartupMessage: true}))
}
