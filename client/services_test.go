package client_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
)

// Answers of services, as they were recorded or as their documentation shows them, and what is
// believed of each. The table of docs/outgoing.md has the same services.
var services = []struct {
	name   string
	page   string // that documents the fields, or has the record
	status int    // 0: 200
	fields string
	left   int64         // of an answer that is no denial; none: nothing is believed
	wait   time.Duration // for which left has to last; or which the denial asks for
	source string        // of wait
}{
	{
		name: "GitHub",
		page: "https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api",
		fields: "Date: Mon, 01 Jul 2013 17:27:06 GMT\nx-ratelimit-limit: 60\n" +
			"x-ratelimit-remaining: 56\nx-ratelimit-used: 4\nx-ratelimit-reset: 1372700873",
		left: 56, wait: 20*time.Minute + 48*time.Second, source: "X-RateLimit-Reset",
	},
	{
		name: "GitLab",
		page: "https://docs.gitlab.com/administration/settings/user_and_ip_rate_limits/, " +
			"https://gitlab.com/gitlab-org/gitlab/-/issues/217312",
		fields: "Date: Wed, 17 Jul 2019 00:58:02 GMT\nRateLimit-Limit: 600\nRateLimit-Observed: 6\n" +
			"RateLimit-Remaining: 594\nRateLimit-Reset: 1563325137\n" +
			"RateLimit-ResetTime: Wed, 17 Jul 2019 00:58:57 GMT",
		left: 594, wait: 56 * time.Second, source: "RateLimit-Reset",
	},
	{
		name: "Docker Hub, its registry", page: "https://docs.docker.com/docker-hub/usage/pulls/",
		fields: "ratelimit-limit: 100;w=21600\nratelimit-remaining: 76;w=21600\n" +
			"docker-ratelimit-source: 192.0.2.1",
		left: none,
	},
	{
		name: "Docker Hub, its API", page: "https://github.com/docker/hub-feedback/issues/2459",
		status: 429,
		fields: "date: Thu, 01 May 2025 22:01:18 GMT\nx-ratelimit-limit: 180\n" +
			"x-ratelimit-reset: 1746136938\nx-ratelimit-remaining: 0\nretry-after: 1746136938",
		wait: 61 * time.Second, source: "Retry-After",
	},
	{
		name: "Docker Hub, in milliseconds",
		page: "https://github.com/rancher/charts-build-scripts/pull/230", status: 429,
		fields: "date: Thu, 01 May 2025 22:01:18 GMT\nretry-after: 1746136938000",
		wait:   61 * time.Second, source: "Retry-After",
	},
	{
		name: "NestJS, throttlers with names", page: "https://docs.nestjs.com/security/rate-limiting",
		status: 429, fields: "retry-after-short: 60", wait: 60 * time.Second, source: "Retry-After-*",
	},
	{
		name: "Discord", page: "https://docs.discord.com/developers/topics/rate-limits",
		fields: "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 4\nX-RateLimit-Reset: 1470173023.123\n" +
			"X-RateLimit-Reset-After: 0.937\nX-RateLimit-Bucket: abcd1234",
		left: 4, wait: 937 * time.Millisecond, source: "X-RateLimit-Reset-After",
	},
	{
		name: "Discord, a denial", page: "https://docs.discord.com/developers/topics/rate-limits",
		status: 429,
		fields: "Retry-After: 65\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 0\n" +
			"X-RateLimit-Reset: 1470173023.123\nX-RateLimit-Reset-After: 64.57\n" +
			"X-RateLimit-Bucket: abcd1234\nX-RateLimit-Scope: user",
		wait: 65 * time.Second, source: "Retry-After",
	},
	{
		name: "Stripe", page: "https://docs.stripe.com/rate-limits", status: 429,
		fields: "Stripe-Rate-Limited-Reason: endpoint-rate",
		wait:   time.Second, source: "backoff",
	},
	{
		name: "OpenAI",
		page: "https://platform.openai.com/docs/guides/rate-limits, " +
			"https://thoughtbot.com/blog/openai-rate-limits",
		fields: "x-ratelimit-limit-requests: 60\nx-ratelimit-limit-tokens: 150000\n" +
			"x-ratelimit-remaining-requests: 59\nx-ratelimit-remaining-tokens: 149984\n" +
			"x-ratelimit-reset-requests: 1s\nx-ratelimit-reset-tokens: 6m0s",
		left: 59, wait: time.Second, source: "x-ratelimit-reset-requests",
	},
	{
		name: "OpenAI, in milliseconds",
		page: "https://community.openai.com/t/how-to-get-rate-limit-reset-time-for-response-api/1268905",
		fields: "x-ratelimit-limit-requests: 5000\nx-ratelimit-limit-tokens: 160000\n" +
			"x-ratelimit-remaining-requests: 4999\nx-ratelimit-remaining-tokens: 159976\n" +
			"x-ratelimit-reset-requests: 12ms\nx-ratelimit-reset-tokens: 9ms",
		left: 4999, wait: 12 * time.Millisecond, source: "x-ratelimit-reset-requests",
	},
	{
		name: "OpenAI, as Azure has it",
		page: "https://learn.microsoft.com/en-us/answers/questions/5625878/azure-openai-responses-api-x-ratelimit-headers-val",
		fields: "x-ratelimit-limit-tokens: -1\nx-ratelimit-remaining-tokens: -1\n" +
			"x-ratelimit-reset-tokens: 0",
		left: none,
	},
	{
		name: "Anthropic",
		page: "https://platform.claude.com/docs/en/api/rate-limits, " +
			"https://rdrr.io/cran/tidyllm/src/tests/testthat/claude/api.anthropic.com/v1/messages-e050b5-POST.R",
		fields: "date: Thu, 21 Aug 2025 12:41:00 GMT\nanthropic-ratelimit-requests-limit: 1000\n" +
			"anthropic-ratelimit-requests-remaining: 999\n" +
			"anthropic-ratelimit-requests-reset: 2025-08-21T12:41:09Z\n" +
			"anthropic-ratelimit-tokens-limit: 96000\nanthropic-ratelimit-tokens-remaining: 0\n" +
			"anthropic-ratelimit-tokens-reset: 2025-08-21T12:50:59Z",
		left: 999, wait: 10 * time.Second, source: "anthropic-ratelimit-requests-reset",
	},
	{
		name: "Anthropic, a denial", page: "https://platform.claude.com/docs/en/api/rate-limits",
		status: 429,
		fields: "date: Thu, 21 Aug 2025 12:41:00 GMT\nretry-after: 13\n" +
			"anthropic-ratelimit-requests-remaining: 0\n" +
			"anthropic-ratelimit-requests-reset: 2025-08-21T12:41:12Z",
		wait: 13 * time.Second, source: "Retry-After",
	},
	{
		name: "Anthropic, a subscription",
		page: "https://github.com/anomalyco/opencode/issues/49653, " +
			"https://github.com/anthropics/claude-code/issues/12829",
		fields: "date: Wed, 29 Jul 2026 12:00:00 GMT\nanthropic-ratelimit-unified-5h-reset: 1785182400\n" +
			"anthropic-ratelimit-unified-5h-status: allowed\nanthropic-ratelimit-unified-5h-utilization: 0.01\n" +
			"anthropic-ratelimit-unified-7d-reset: 1785751200\nanthropic-ratelimit-unified-7d-status: allowed\n" +
			"anthropic-ratelimit-unified-7d-utilization: 0.0\nanthropic-ratelimit-unified-overage-status: rejected\n" +
			"anthropic-ratelimit-unified-representative-claim: five_hour\n" +
			"anthropic-ratelimit-unified-reset: 1785182400\nanthropic-ratelimit-unified-status: allowed",
		left: none,
	},
	{
		name: "Anthropic, a denial of a subscription",
		page: "https://github.com/lidge-jun/opencodex/pull/3809", status: 429,
		fields: "date: Sun, 02 Aug 2026 15:36:28 GMT\nanthropic-ratelimit-unified-5h-reset: 1785685200\n" +
			"anthropic-ratelimit-unified-5h-status: rejected\nanthropic-ratelimit-unified-5h-utilization: 1.0\n" +
			"anthropic-ratelimit-unified-7d-reset: 1785736800\nanthropic-ratelimit-unified-7d-status: allowed_warning\n" +
			"anthropic-ratelimit-unified-7d-utilization: 0.94\nanthropic-ratelimit-unified-status: rejected",
		wait: 213 * time.Second, source: "anthropic-ratelimit-unified-5h-reset",
	},
	{
		name: "Atlassian, its cloud",
		page: "https://developer.atlassian.com/cloud/jira/platform/rate-limiting, " +
			"https://jira.atlassian.com/browse/JRACLOUD-69262",
		fields: "Date: Mon, 10 May 2021 10:59:30 GMT\nX-RateLimit-Limit: 350\n" +
			"X-RateLimit-Remaining: 69\nX-RateLimit-NearLimit: true\nX-RateLimit-Reset: 2021-05-10T11:00Z",
		left: 69, wait: 90 * time.Second, source: "X-RateLimit-Reset",
	},
	{
		name: "Atlassian, a denial",
		page: "https://developer.atlassian.com/cloud/jira/platform/rate-limiting", status: 429,
		fields: "Date: Mon, 10 May 2021 10:59:30 GMT\nRetry-After: 5\n" +
			"X-RateLimit-Reset: 2021-05-10T11:00Z\nRateLimit-Reason: jira-burst-based",
		wait: 5 * time.Second, source: "Retry-After",
	},
	{
		name: "Atlassian, its data center",
		page: "https://confluence.atlassian.com/conf87/_ratelimiting_httpheaders-1333822054.html",
		fields: "X-RateLimit-Limit: 1800\nX-RateLimit-Remaining: 9\nX-RateLimit-Interval-Seconds: 60\n" +
			"X-RateLimit-FillRate: 300\nretry-after: 0",
		left: 9, wait: time.Minute, source: "X-RateLimit-Interval-Seconds",
	},
	{
		name: "Shopify",
		page: "https://shopify.dev/docs/api/admin-rest/usage/rate-limits, " +
			"https://community.shopify.com/t/api-rate-limits-question/232461",
		fields: "X-Shopify-Shop-Api-Call-Limit: 32/40",
		left:   8, wait: 4500 * time.Millisecond, source: "X-Shopify-Shop-Api-Call-Limit",
	},
	{
		name: "Shopify, a denial", page: "https://shopify.dev/docs/api/admin-rest/usage/rate-limits",
		status: 429,
		fields: "X-Shopify-Shop-Api-Call-Limit: 40/40\nRetry-After: 2.0",
		wait:   2 * time.Second, source: "Retry-After",
	},
	{
		name: "X", page: "https://docs.x.com/x-api/fundamentals/rate-limits",
		fields: "Date: Tue, 16 Jan 2024 15:50:00 GMT\nx-rate-limit-limit: 900\n" +
			"x-rate-limit-remaining: 847\nx-rate-limit-reset: 1705420800",
		left: 847, wait: 10*time.Minute + time.Second, source: "X-Rate-Limit-Reset",
	},
	{
		name: "Reddit",
		page: "https://www.reddit.com/r/redditdev/comments/1yxrp7/formal_ratelimiting_headers/, " +
			"https://github.com/tolik518/factorion-bot/pull/146",
		fields: "X-Ratelimit-Used: 91\nX-Ratelimit-Remaining: 9.0\nX-Ratelimit-Reset: 574.25",
		left:   9, wait: 574250 * time.Millisecond, source: "X-RateLimit-Reset",
	},
	{
		name: "Slack", page: "https://docs.slack.dev/apis/web-api/rate-limits", status: 429,
		fields: "Retry-After: 30",
		wait:   30 * time.Second, source: "Retry-After",
	},
	{
		name: "Okta", page: "https://developer.okta.com/docs/reference/rl-best-practices/",
		fields: "Date: Thu, 31 Dec 2020 23:59:20 GMT\nX-Rate-Limit-Limit: 1200\n" +
			"X-Rate-Limit-Remaining: 1199\nX-Rate-Limit-Reset: 1609459200",
		left: 1199, wait: 41 * time.Second, source: "X-Rate-Limit-Reset",
	},
	{
		name: "Okta, a denial", page: "https://developer.okta.com/docs/reference/rl-best-practices/",
		status: 429,
		fields: "Date: Thu, 31 Dec 2020 23:59:20 GMT\nX-Rate-Limit-Limit: 1200\n" +
			"X-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: 1609459200",
		wait: 41 * time.Second, source: "X-Rate-Limit-Reset",
	},
	{
		name: "Zendesk",
		page: "https://developer.zendesk.com/documentation/api-basics/best-practices/best-practices-for-avoiding-rate-limiting",
		fields: "x-rate-limit: 700\nratelimit-limit: 700\nx-rate-limit-remaining: 699\n" +
			"ratelimit-remaining: 699\nratelimit-reset: 41\n" +
			"zendesk-ratelimit-tickets-index: total=100; remaining=99; resets=41",
		left: 699, wait: 41 * time.Second, source: "RateLimit-Reset",
	},
	{
		name:   "Zendesk, most answers",
		page:   "https://developer.zendesk.com/documentation/api-basics/best-practices/best-practices-for-avoiding-rate-limiting",
		fields: "X-Rate-Limit: 700\nX-Rate-Limit-Remaining: 699",
		left:   none,
	},
	{
		name: "HubSpot", page: "https://developers.hubspot.com/docs/api/usage-details",
		fields: "X-HubSpot-RateLimit-Daily: 250000\nX-HubSpot-RateLimit-Daily-Remaining: 249000\n" +
			"X-HubSpot-RateLimit-Interval-Milliseconds: 10000\nX-HubSpot-RateLimit-Max: 100\n" +
			"X-HubSpot-RateLimit-Remaining: 99\nX-HubSpot-RateLimit-Secondly: 10\n" +
			"X-HubSpot-RateLimit-Secondly-Remaining: 9",
		left: 99, wait: 10 * time.Second, source: "X-HubSpot-RateLimit-Interval-Milliseconds",
	},
	{
		name: "Azure",
		page: "https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/request-limits-and-throttling",
		fields: "x-ms-ratelimit-remaining-subscription-reads: 11999\n" +
			"x-ms-ratelimit-remaining-resource: Microsoft.Compute/GetVMScaleSet3Min;197," +
			"Microsoft.Compute/GetVMScaleSet30Min;1297",
		left: none,
	},
	{
		name:   "Azure, a denial",
		page:   "https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/request-limits-and-throttling",
		status: 429,
		fields: "x-ms-ratelimit-remaining-subscription-reads: 0\nRetry-After: 7",
		wait:   7 * time.Second, source: "Retry-After",
	},
	{
		name:   "Azure Cosmos DB",
		page:   "https://learn.microsoft.com/en-us/rest/api/cosmos-db/common-cosmosdb-rest-response-headers",
		status: 429,
		fields: "x-ms-retry-after-ms: 5500",
		wait:   5500 * time.Millisecond, source: "x-ms-retry-after-ms",
	},
	{
		name: "Brave Search",
		page: "https://api.search.brave.com/app/documentation/web-search/response-headers",
		fields: "X-RateLimit-Limit: 1, 15000\nX-RateLimit-Policy: 1;w=1, 15000;w=2592000\n" +
			"X-RateLimit-Remaining: 1, 1000\nX-RateLimit-Reset: 1, 1419704",
		left: 1, wait: time.Second, source: "X-RateLimit-Reset",
	},
	{
		name: "Rachio",
		page: "https://rachio.discoursehosting.net/t/api-rate-limiting-enhancements/10944",
		fields: "Date: Mon, 12 Mar 2018 23:00:00 GMT\nX-RateLimit-Limit: 1700\n" +
			"X-RateLimit-Remaining: 4\nX-RateLimit-Reset: 2018-03-13T00:00:00Z",
		left: 4, wait: time.Hour + time.Second, source: "X-RateLimit-Reset",
	},
	{
		name: "lemlist", page: "https://developer.lemlist.com/api-reference/getting-started/rate-limits",
		fields: "Date: Tue, 16 Feb 2021 08:02:41 GMT\nRetry-After: 2\nX-RateLimit-Limit: 20\n" +
			"X-RateLimit-Remaining: 7\n" +
			"X-RateLimit-Reset: Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)",
		left: 7, wait: 2 * time.Second, source: "X-RateLimit-Reset",
	},
}

// none is left of an answer of which nothing is believed.
const none = -1

func TestAnswersOfServicesAreUnderstood(t *testing.T) {
	for _, s := range services {
		t.Run(s.name, func(t *testing.T) {
			if s.status == http.StatusTooManyRequests {
				testWait(t, s.fields, s.wait, s.source)
				return
			}
			testLeft(t, s.fields, s.left, s.wait, s.source)
		})
	}
}

// testLeft tests what an answer with these fields is taken to have left, and for how long: a client
// that spreads its requests evenly holds the next one back for window/(left+1).
func testLeft(t *testing.T, fields string, left int64, window time.Duration, source string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(began))
		c := newClient(t, scripted(always(200, list(fields)...)), client.Options{Pace: client.Evenly, MaxWait: 1})
		get(c, "http://a/")
		_, err := get(c, "http://a/")
		var held *client.WaitError
		switch isHeld := errors.As(err, &held); {
		case left == none && err != nil:
			t.Errorf("the next request ended with %v, want nothing to be believed", err)
		case left != none && (!isHeld || held.Wait != window/time.Duration(left+1) || held.Source != source):
			t.Errorf("the next request ended with %+v, want a wait of %v, a part of %v, by %s", err,
				window/time.Duration(left+1), window, source)
		}
	})
}
