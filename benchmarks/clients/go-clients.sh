#!/usr/bin/env bash
# The HTTP clients and SDKs of the Go proxy, most with the retry that they offer switched on. BUILT is
# the program below if it is built already, which takes minutes.
source "$(dirname "$0")/lib.sh"
pins='
github.com/hashicorp/go-retryablehttp v0.7.8
github.com/go-resty/resty/v2 v2.17.2
github.com/gojek/heimdall/v7 v7.0.3
github.com/imroc/req/v3 v3.57.0
github.com/stripe/stripe-go/v85 v85.0.0
github.com/slack-go/slack v0.35.0
github.com/openai/openai-go/v3 v3.99.0
github.com/sashabaranov/go-openai v1.43.0
github.com/anthropics/anthropic-sdk-go v1.84.0
github.com/bwmarrin/discordgo v0.29.0
github.com/disgoorg/disgo v0.18.15
github.com/go-telegram-bot-api/telegram-bot-api/v5 v5.5.1
gopkg.in/telebot.v4 v4.0.0-beta.10
github.com/go-telegram/bot v1.19.0
github.com/google/go-github/v89 v89.0.0
gitlab.com/gitlab-org/api/client-go v1.46.0
github.com/twilio/twilio-go v1.31.0
github.com/aws/aws-sdk-go-v2/service/s3 v1.114.10
github.com/Azure/azure-sdk-for-go/sdk/azcore v1.24.0
google.golang.org/api v0.315.0
github.com/hetznercloud/hcloud-go/v2 v2.50.0
github.com/linode/linodego v1.69.1
github.com/cloudflare/cloudflare-go/v7 v7.9.0
github.com/digitalocean/godo v1.240.0
github.com/hashicorp/vault/api v1.23.0
github.com/minio/minio-go/v7 v7.4.1
k8s.io/client-go v0.37.2
google.golang.org/genai v1.77.0
github.com/elastic/go-elasticsearch/v9 v9.5.2
github.com/sendgrid/sendgrid-go v3.16.1+incompatible
'
cat >main.go <<'G'
// A client as its documents create it. Its name is the argument.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	azruntime "github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bwmarrin/discordgo"
	"github.com/cloudflare/cloudflare-go/v7"
	cloudflareoption "github.com/cloudflare/cloudflare-go/v7/option"
	"github.com/cloudflare/cloudflare-go/v7/zones"
	"github.com/digitalocean/godo"
	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"
	"github.com/elastic/go-elasticsearch/v9"
	"github.com/go-resty/resty/v2"
	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
	"github.com/go-telegram/bot"
	"github.com/gojek/heimdall/v7"
	"github.com/gojek/heimdall/v7/httpclient"
	"github.com/google/go-github/v89/github"
	vault "github.com/hashicorp/vault/api"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/imroc/req/v3"
	"github.com/linode/linodego"
	"github.com/minio/minio-go/v7"
	miniocredentials "github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	goopenai "github.com/sashabaranov/go-openai"
	"github.com/sendgrid/sendgrid-go"
	"github.com/slack-go/slack"
	"github.com/stripe/stripe-go/v85"
	twilio "github.com/twilio/twilio-go"
	twilioclient "github.com/twilio/twilio-go/client"
	twilioapi "github.com/twilio/twilio-go/rest/api/v2010"
	gitlab "gitlab.com/gitlab-org/api/client-go"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	"google.golang.org/genai"
	telebot "gopkg.in/telebot.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	k8srest "k8s.io/client-go/rest"
)

var (
	base = os.Getenv("URL")
	host = strings.TrimPrefix(base, "http://")
	ctx  = context.Background()
)

// through sends all requests to base.
type through struct{}

func (through) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", host
	return http.DefaultTransport.RoundTrip(r)
}

func got(r *http.Response, err error) error {
	if err != nil {
		return err
	}
	return said(fmt.Sprintf("answer %d, Retry-After %s", r.StatusCode, r.Header.Get("Retry-After")))
}

// said is an answer and no error.
type said string

func (s said) Error() string { return string(s) }

var clients = map[string]func() error{
	"net/http": func() error { return got(http.Get(base)) },
	"github.com/hashicorp/go-retryablehttp": func() error {
		c := retryablehttp.NewClient()
		c.Logger = nil
		return got(c.Get(base))
	},
	"github.com/go-resty/resty/v2": func() error {
		r, err := resty.New().SetRetryCount(3).AddRetryCondition(func(r *resty.Response, err error) bool {
			return r.StatusCode() == 429 || r.StatusCode() == 503
		}).R().Get(base)
		return got(r.RawResponse, err)
	},
	"github.com/gojek/heimdall/v7": func() error {
		backoff := heimdall.NewConstantBackoff(500*time.Millisecond, 10*time.Millisecond)
		return got(httpclient.NewClient(httpclient.WithRetryCount(3),
			httpclient.WithRetrier(heimdall.NewRetrier(backoff))).Get(base, nil))
	},
	"github.com/imroc/req/v3": func() error {
		r, err := req.C().R().SetRetryCount(3).AddRetryCondition(func(r *req.Response, err error) bool {
			return r.StatusCode == 429 || r.StatusCode == 503
		}).Get(base)
		return got(r.Response, err)
	},
	"github.com/stripe/stripe-go/v85": func() error {
		backend := stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
			URL: stripe.String(base), LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull}})
		c := stripe.NewClient("sk_test_1", stripe.WithBackends(&stripe.Backends{API: backend, Connect: backend, Uploads: backend, MeterEvents: backend}))
		_, err := c.V1Charges.Create(ctx, &stripe.ChargeCreateParams{Amount: stripe.Int64(1), Currency: stripe.String("eur")})
		return err
	},
	"github.com/slack-go/slack": func() error {
		_, _, err := slack.New("x", slack.OptionAPIURL(base+"/")).PostMessage("c", slack.MsgOptionText("t", false))
		return err
	},
	"github.com/openai/openai-go/v3": func() error {
		c := openai.NewClient(openaioption.WithAPIKey("x"), openaioption.WithBaseURL(base))
		_, err := c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "m",
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}})
		return err
	},
	"github.com/sashabaranov/go-openai": func() error {
		config := goopenai.DefaultConfig("x")
		config.BaseURL = base
		_, err := goopenai.NewClientWithConfig(config).CreateChatCompletion(ctx, goopenai.ChatCompletionRequest{Model: "m",
			Messages: []goopenai.ChatCompletionMessage{{Role: "user", Content: "hi"}}})
		return err
	},
	"github.com/anthropics/anthropic-sdk-go": func() error {
		c := anthropic.NewClient(anthropicoption.WithAPIKey("x"), anthropicoption.WithBaseURL(base))
		_, err := c.Messages.New(ctx, anthropic.MessageNewParams{Model: "m", MaxTokens: 9,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))}})
		return err
	},
	"github.com/bwmarrin/discordgo": func() error {
		s, _ := discordgo.New("Bot x")
		discordgo.EndpointChannels = base + "/channels/"
		_, err := s.ChannelMessageSend("1", "t")
		return err
	},
	"github.com/disgoorg/disgo": func() error {
		_, err := disgo().CreateMessage(1, discord.MessageCreate{Content: "t"})
		return err
	},
	"github.com/go-telegram-bot-api/telegram-bot-api/v5": func() error {
		b := &tgbotapi.BotAPI{Token: "1:x", Client: http.DefaultClient}
		b.SetAPIEndpoint(base + "/bot%s/%s")
		_, err := b.Send(tgbotapi.NewMessage(1, "t"))
		return err
	},
	"gopkg.in/telebot.v4": func() error {
		b, err := telebot.NewBot(telebot.Settings{URL: base, Token: "1:x", Offline: true})
		if err != nil {
			return err
		}
		_, err = b.Send(&telebot.User{ID: 1}, "t")
		return err
	},
	"github.com/go-telegram/bot": func() error {
		b, err := bot.New("1:x", bot.WithServerURL(base), bot.WithSkipGetMe())
		if err != nil {
			return err
		}
		_, err = b.SendMessage(ctx, &bot.SendMessageParams{ChatID: 1, Text: "t"})
		return err
	},
	"github.com/google/go-github/v89": func() error {
		c, err := github.NewClient(github.WithTransport(through{}))
		if err != nil {
			return err
		}
		_, _, err = c.Users.Get(ctx, "u")
		return err
	},
	"gitlab.com/gitlab-org/api/client-go": func() error {
		c, err := gitlab.NewClient("x", gitlab.WithBaseURL(base))
		if err != nil {
			return err
		}
		_, _, err = c.Projects.GetProject(1, nil)
		return err
	},
	"github.com/twilio/twilio-go": func() error {
		inner := &twilioclient.Client{Credentials: twilioclient.NewCredentials("ACx", "x"), HTTPClient: &http.Client{Transport: through{}}}
		inner.SetAccountSid("ACx")
		c := twilio.NewRestClientWithParams(twilio.ClientParams{Client: inner})
		_, err := c.Api.CreateMessage((&twilioapi.CreateMessageParams{}).SetTo("+1").SetFrom("+2").SetBody("t"))
		return err
	},
	"github.com/aws/aws-sdk-go-v2/service/s3": func() error {
		c := s3.New(s3.Options{BaseEndpoint: aws.String(base), Region: "us-east-1", UsePathStyle: true,
			Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")})
		_, err := c.ListBuckets(ctx, nil)
		return err
	},
	"github.com/Azure/azure-sdk-for-go/sdk/azcore": func() error {
		p := azruntime.NewPipeline("m", "v1", azruntime.PipelineOptions{}, &policy.ClientOptions{})
		r, err := azruntime.NewRequest(ctx, "GET", base)
		if err != nil {
			return err
		}
		return got(p.Do(r))
	},
	"google.golang.org/api": func() error {
		c, err := storage.NewService(ctx, option.WithEndpoint(base), option.WithoutAuthentication())
		if err != nil {
			return err
		}
		_, err = c.Buckets.Get("b").Do()
		return err
	},
	"github.com/hetznercloud/hcloud-go/v2": func() error {
		_, _, err := hcloud.NewClient(hcloud.WithToken("x"), hcloud.WithEndpoint(base)).Server.GetByID(ctx, 1)
		return err
	},
	"github.com/linode/linodego": func() error {
		c := linodego.NewClient(nil)
		c.SetBaseURL(base)
		_, err := c.GetProfile(ctx)
		return err
	},
	"github.com/cloudflare/cloudflare-go/v7": func() error {
		c := cloudflare.NewClient(cloudflareoption.WithAPIToken("x"), cloudflareoption.WithBaseURL(base))
		_, err := c.Zones.Get(ctx, zones.ZoneGetParams{ZoneID: cloudflare.F("z")})
		return err
	},
	"github.com/digitalocean/godo": func() error {
		c, err := godo.New(http.DefaultClient, godo.SetBaseURL(base), godo.WithRetryAndBackoffs(godo.RetryConfig{
			RetryMax: 3, RetryWaitMin: godo.PtrTo(1.0), RetryWaitMax: godo.PtrTo(30.0)}))
		if err != nil {
			return err
		}
		_, _, err = c.Account.Get(ctx)
		return err
	},
	"github.com/hashicorp/vault/api": func() error {
		c, err := vault.NewClient(&vault.Config{Address: base, MaxRetries: 2})
		if err != nil {
			return err
		}
		_, err = c.Logical().Read("secret/a")
		return err
	},
	"github.com/minio/minio-go/v7": func() error {
		c, err := minio.New(host, &minio.Options{Creds: miniocredentials.NewStaticV4("x", "x", ""), Region: "r"})
		if err != nil {
			return err
		}
		_, err = c.ListBuckets(ctx)
		return err
	},
	"k8s.io/client-go": func() error {
		c, err := kubernetes.NewForConfig(&k8srest.Config{Host: base})
		if err != nil {
			return err
		}
		_, err = c.CoreV1().Pods("d").Get(ctx, "p", metav1.GetOptions{})
		return err
	},
	"google.golang.org/genai": func() error {
		c, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: "x", Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: base}})
		if err != nil {
			return err
		}
		_, err = c.Models.GenerateContent(ctx, "m", genai.Text("hi"), nil)
		return err
	},
	"github.com/elastic/go-elasticsearch/v9": func() error {
		c, err := elasticsearch.NewClient(elasticsearch.Config{Addresses: []string{base}})
		if err != nil {
			return err
		}
		r, err := c.Search()
		if err != nil {
			return err
		}
		return said(fmt.Sprintf("answer %d, Retry-After %s", r.StatusCode, r.Header.Get("Retry-After")))
	},
	"github.com/sendgrid/sendgrid-go": func() error {
		r := sendgrid.GetRequest("x", "/v3/mail/send", base)
		r.Method = "POST"
		a, err := sendgrid.MakeRequestRetry(r)
		if err != nil {
			return err
		}
		return said(fmt.Sprintf("answer %d, Retry-After %s", a.StatusCode, http.Header(a.Headers).Get("Retry-After")))
	},
}

func disgo() rest.Rest { return rest.New(rest.NewClient("x", rest.WithURL(base))) }

func main() {
	err := clients[os.Args[1]]()
	if s, is := err.(said); is {
		fmt.Println("saw", string(s))
		return
	}
	text := "success"
	if err != nil {
		text = fmt.Sprintf("%T %.110q", err, strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), base, "URL"))
	}
	fmt.Println("saw", text)
}
G
if [[ -n "${BUILT:-}" ]]; then
	cp "$BUILT" client
else
	go_with $(awk 'NF { print $1 "@" $2 }' <<<"$pins") github.com/aws/aws-sdk-go-v2/credentials@v1.21.0
	go build -o client .
fi
ask_pins Go ./client <<<"net/http $(go env GOVERSION)
$pins"

# Answers in the forms that some of these APIs have themselves.
api() {
	local cases=429,bare
	if [ "$1" = discord ]; then cases=429; fi # New refuses MaxRetryAfter beside Discord
	ANSWER=$1 CASES=$cases ask Go "$2" "$(awk -v n="$2" '$1 == n { print $2 }' <<<"$pins")" ./client "$2"
}
api bots github.com/go-telegram-bot-api/telegram-bot-api/v5
api bots gopkg.in/telebot.v4
api bots github.com/go-telegram/bot
api discord github.com/disgoorg/disgo
api discord github.com/bwmarrin/discordgo
api github github.com/google/go-github/v89
api gitlab gitlab.com/gitlab-org/api/client-go
api bots github.com/hetznercloud/hcloud-go/v2
api openai github.com/openai/openai-go/v3
api anthropic github.com/anthropics/anthropic-sdk-go
api 'stripe retry' github.com/stripe/stripe-go/v85
