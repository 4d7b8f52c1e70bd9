#!/usr/bin/env bash
# The HTTP clients of Debian 12: those of Ruby, PHP, Perl, Erlang, Elixir, Lua, Tcl, R and Guile, and
# command lines. It installs what is missing, as root.
source "$(dirname "$0")/lib.sh"
debian ruby ruby-faraday ruby-excon ruby-httparty ruby-rest-client ruby-httpclient ruby-typhoeus ruby-octokit \
	ruby-gitlab ruby-http ruby-aws-sdk-s3 php-cli php-curl php-guzzlehttp-guzzle php-symfony-http-client \
	erlang-base erlang-inets erlang-ssl elixir libwww-perl libmojolicious-perl libfurl-perl libwww-mechanize-perl \
	liblwp-useragent-determined-perl lua5.4 lua-socket tcl guile-3.0 r-base-core r-cran-httr \
	r-cran-httr2 r-cran-crul curl wget wget2 aria2 httpie
# packaged LANGUAGE NAME PACKAGE COMMAND...
packaged() { ask "$1" "$2" "$(release_of "$3")" "${@:4}"; }

cat >client.rb <<'R'
require 'date'
url = ENV['URL']
got = ->(status, wait) { "answer #{status}, Retry-After #{wait}" }
clients = {
  'Net::HTTP' => -> { require 'net/http'; r = Net::HTTP.get_response(URI(url)); got.(r.code, r['retry-after']) },
  'open-uri' => -> { require 'open-uri'; URI.open(url).read },
  'faraday' => lambda {
    require 'faraday'
    c = Faraday.new(url) { |f| f.request :retry, max: 3, retry_statuses: [429, 503]; f.adapter Faraday.default_adapter }
    r = c.get('/')
    got.(r.status, r.headers['retry-after'])
  },
  'excon' => lambda {
    require 'excon'
    r = Excon.get(url, idempotent: true, expects: 200)
    got.(r.status, r.headers['retry-after'])
  },
  'httparty' => -> { require 'httparty'; r = HTTParty.get(url); got.(r.code, r.headers['retry-after']) },
  'rest-client' => -> { require 'rest-client'; RestClient.get(url) },
  'httpclient' => -> { require 'httpclient'; r = HTTPClient.get(url); got.(r.status, r.headers['Retry-After']) },
  'typhoeus' => -> { require 'typhoeus'; r = Typhoeus.get(url); got.(r.code, r.headers['retry-after']) },
  'http' => -> { require 'http'; r = HTTP.get(url); got.(r.code, r.headers['retry-after']) },
  'octokit' => -> { require 'octokit'; Octokit::Client.new(api_endpoint: url).user('u') },
  'gitlab' => -> { require 'gitlab'; Gitlab.client(endpoint: url, private_token: 'x').project(1) },
  'aws-sdk-s3' => lambda {
    require 'aws-sdk-s3'
    Aws::S3::Client.new(endpoint: url, region: 'us-east-1', force_path_style: true,
                        access_key_id: 'x', secret_access_key: 'x').list_buckets
  }
}
begin
  said = clients[ARGV[0]].call
  puts "saw #{said.is_a?(String) && said.start_with?('answer') ? said : "success: #{said.inspect[0, 60]}"}"
rescue StandardError => e
  puts "saw #{e.class} #{e.message.gsub(/\s+/, ' ').gsub(url, 'URL')[0, 110].inspect}"
end
R
ask Ruby Net::HTTP "$(ruby -e 'print RUBY_VERSION')" ruby -W0 client.rb Net::HTTP
ask Ruby open-uri "$(ruby -e 'print RUBY_VERSION')" ruby -W0 client.rb open-uri
for name in faraday excon httparty rest-client httpclient typhoeus http octokit gitlab aws-sdk-s3; do
	packaged Ruby $name ruby-$name ruby -W0 client.rb $name
done

cat >client.php <<'P'
<?php
$url = getenv('URL');
$got = fn ($status, $wait) => "answer $status, Retry-After " . ($wait ?: 'none');
try {
    switch ($argv[1]) {
    case 'file_get_contents':
        $body = @file_get_contents($url);
        $said = $body === false ? 'false; ' . error_get_last()['message'] : $body;
        break;
    case 'curl':
        $c = curl_init($url);
        curl_setopt($c, CURLOPT_RETURNTRANSFER, true);
        curl_exec($c);
        $said = 'answer ' . curl_getinfo($c, CURLINFO_RESPONSE_CODE);
        break;
    case 'guzzle':
    case 'guzzle Middleware::retry':
        require 'GuzzleHttp/autoload.php';
        $stack = GuzzleHttp\HandlerStack::create();
        if ($argv[1] !== 'guzzle') {
            $stack->push(GuzzleHttp\Middleware::retry(fn ($n, $q, $r = null) =>
                $n < 3 && $r && in_array($r->getStatusCode(), [429, 503])));
        }
        $r = (new GuzzleHttp\Client(['handler' => $stack]))->get($url);
        $said = $got($r->getStatusCode(), $r->getHeaderLine('Retry-After'));
        break;
    case 'symfony HttpClient':
    case 'symfony RetryableHttpClient':
        require 'Symfony/Component/HttpClient/autoload.php';
        $c = Symfony\Component\HttpClient\HttpClient::create();
        if ($argv[1] === 'symfony RetryableHttpClient') {
            $c = new Symfony\Component\HttpClient\RetryableHttpClient($c);
        }
        $said = $c->request('GET', $url)->getContent();
    }
} catch (Throwable $e) {
    $said = get_class($e) . ' ' . json_encode(substr(preg_replace('/\s+/', ' ', $e->getMessage()), 0, 110), JSON_UNESCAPED_SLASHES);
}
echo "saw $said\n";
P
for name in file_get_contents curl; do
	ask PHP $name "$(php -r 'echo PHP_VERSION;')" php client.php $name
done
packaged PHP guzzle php-guzzlehttp-guzzle php client.php guzzle
packaged PHP 'guzzle Middleware::retry' php-guzzlehttp-guzzle php client.php 'guzzle Middleware::retry'
packaged PHP 'symfony HttpClient' php-symfony-http-client php client.php 'symfony HttpClient'
packaged PHP 'symfony RetryableHttpClient' php-symfony-http-client php client.php 'symfony RetryableHttpClient'

cat >client.pl <<'P'
use strict; use warnings;
my ($url, $name) = ($ENV{URL}, $ARGV[0]);
sub got { "answer $_[0], Retry-After " . ($_[1] // 'none') }
my $said = eval {
	if ($name eq 'LWP') { require LWP::UserAgent; my $r = LWP::UserAgent->new->get($url); return got($r->code, $r->header('Retry-After')) }
	if ($name eq 'LWP::UserAgent::Determined') { require LWP::UserAgent::Determined; my $r = LWP::UserAgent::Determined->new->get($url); return got($r->code, $r->header('Retry-After')) }
	if ($name eq 'HTTP::Tiny') { require HTTP::Tiny; my $r = HTTP::Tiny->new->get($url); return got($r->{status}, $r->{headers}{'retry-after'}) }
	if ($name eq 'Mojo::UserAgent') { require Mojo::UserAgent; my $r = Mojo::UserAgent->new->get($url)->res; return got($r->code, $r->headers->header('Retry-After')) }
	if ($name eq 'Furl') { require Furl; my $r = Furl->new->get($url); return got($r->code, $r->header('Retry-After')) }
	if ($name eq 'WWW::Mechanize') { require WWW::Mechanize; WWW::Mechanize->new->get($url); return 'success' }
};
print "saw ", $said // ('dies: ' . substr($@ =~ s/\s+/ /gr, 0, 110)), "\n";
P
ask Perl HTTP::Tiny "$(perl -MHTTP::Tiny -e 'print HTTP::Tiny->VERSION')" perl client.pl HTTP::Tiny
packaged Perl LWP libwww-perl perl client.pl LWP
packaged Perl LWP::UserAgent::Determined liblwp-useragent-determined-perl perl client.pl LWP::UserAgent::Determined
packaged Perl Mojo::UserAgent libmojolicious-perl perl client.pl Mojo::UserAgent
packaged Perl Furl libfurl-perl perl client.pl Furl
packaged Perl WWW::Mechanize libwww-mechanize-perl perl client.pl WWW::Mechanize

cat >client.erl <<'E'
#!/usr/bin/env escript
main([Method]) ->
    inets:start(),
    Url = os:getenv("URL"),
    Request = case Method of "get" -> {Url, []}; "post" -> {Url, [], "text/plain", "x"} end,
    case httpc:request(list_to_atom(Method), Request, [{timeout, 60000}], []) of
        {ok, {{_, Status, _}, Fields, _}} ->
            io:format("saw answer ~p, Retry-After ~s~n", [Status, proplists:get_value("retry-after", Fields, "none")]);
        {error, Reason} -> io:format("saw error ~p~n", [Reason])
    end.
E
erlang=$(release_of erlang-base)
ask Erlang 'httpc' "$erlang" escript client.erl get
ask Erlang 'httpc, POST' "$erlang" escript client.erl post
cat >client.exs <<'E'
:inets.start()
{:ok, {{_, status, _}, fields, _}} = :httpc.request(:get, {to_charlist(System.get_env("URL")), []}, [], [])
IO.puts("saw answer #{status}, Retry-After #{:proplists.get_value('retry-after', fields, 'none')}")
E
packaged Elixir ':httpc' elixir elixir client.exs

cat >client.lua <<'L'
local url = os.getenv 'URL'
local _, status, fields = require 'socket.http'.request(url)
print('saw answer ' .. status .. ', Retry-After ' .. (fields['retry-after'] or 'none'))
L
packaged Lua socket.http lua-socket lua5.4 client.lua
packaged Lua lua-http lua5.4 client.lua lua-http

cat >client.tcl <<'T'
package require http
set t [http::geturl $env(URL)]
puts "saw answer [http::ncode $t], Retry-After [dict get [http::meta $t] Retry-After]"
T
ask Tcl http "$(echo 'package require http; puts [package present http]' | tclsh)" tclsh client.tcl

cat >client.scm <<'G'
(use-modules (web client) (web response))
(call-with-values (lambda () (http-get (getenv "URL")))
  (lambda (r body) (format #t "saw answer ~a, Retry-After ~a~%" (response-code r) (assq-ref (response-headers r) 'retry-after))))
G
packaged Guile 'web client' guile-3.0 guile --no-auto-compile client.scm

cat >client.R <<'R'
url <- Sys.getenv("URL")
got <- function(status, wait) paste0("answer ", status, ", Retry-After ", wait)
said <- tryCatch(switch(commandArgs(TRUE)[1],
  httr = { r <- httr::GET(url); got(httr::status_code(r), httr::headers(r)[["retry-after"]]) },
  "httr RETRY" = { r <- httr::RETRY("GET", url, quiet = TRUE); got(httr::status_code(r), httr::headers(r)[["retry-after"]]) },
  httr2 = { r <- httr2::req_perform(httr2::req_retry(httr2::request(url), max_tries = 3)); "success" },
  crul = { r <- crul::HttpClient$new(url)$retry("get"); got(r$status_code, r$response_headers[["retry-after"]]) },
  readLines = readLines(url)
), error = function(e) paste(class(e)[1], conditionMessage(e)))
cat("saw ", gsub("\n", " ", said), "\n", sep = "")
R
for name in httr httr2 crul; do packaged R $name r-cran-$name Rscript client.R $name; done
packaged R 'httr RETRY' r-cran-httr Rscript client.R 'httr RETRY'
packaged R readLines r-base-core Rscript client.R readLines

# told NAME PACKAGE COMMAND... is a command line: its exit code and last words are what it saw.
told() {
	printf '#!/bin/bash\nsaid=$("${@}" 2>&1) && code=0 || code=$?\necho "saw exit $code, $(tail -n 1 <<<"$said" | cut -c 1-110)"\n' >told
	packaged 'command line' "$1" "$2" bash told "${@:3}"
}
told curl curl bash -c 'curl -sS $URL'
told 'curl --fail' curl bash -c 'curl -sS --fail $URL'
told 'curl --retry 3' curl bash -c 'curl -sS --fail --retry 3 $URL'
told wget wget bash -c 'wget -nv -O /dev/null $URL'
told 'wget --retry-on-http-error' wget bash -c 'wget -nv -O /dev/null --tries=3 --retry-on-http-error=429,503 $URL'
told wget2 wget2 bash -c 'wget2 -nv -O /dev/null $URL'
told aria2c aria2 bash -c 'aria2c -q --dir=. --max-tries=3 -o "denied.$$" $URL'
told httpie httpie bash -c 'http --ignore-stdin --check-status --headers $URL'
