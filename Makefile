# Every target gets what it needs from Debian where it is missing.
.PHONY: run test older check generate bench shots audit

# Where .ci/get unpacks servers that aren't this machine's own. Its Valkey 9 goes
# before any other; LOCKSTEP_OLDER are those that the sandbox has to work on too.
cache := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lockstep
export PATH := $(cache)/valkey:$(PATH)
LOCKSTEP_OLDER ?= $(cache)/valkey8/valkey-server $(cache)/redis7/redis-server

run:        ## serve the course on http://localhost:8080
	@.ci/get valkey || echo "without Valkey: figures run on a simulated server"
	go run ./cmd/site

test:       ## the whole suite, on a real Valkey and in a real browser
	@.ci/get valkey chromium postgresql nginx
	LOCKSTEP_REQUIRE=1 go test -race -p 1 -timeout 18m ./...
	@$(MAKE) --no-print-directory older

older:      ## the sandbox's tests and every claim of the course, on servers older than Valkey 9
	@.ci/get valkey8 redis7
	@for server in $(LOCKSTEP_OLDER); do \
		[ -x "$$server" ] || { echo "not tested, for it is not here: $$server" >&2; continue; }; \
		echo "on $$server:"; \
		LOCKSTEP_REQUIRE=1 go test -short -p 1 -exec "env 'PATH=$${server%/*}'" ./sandbox/server ./sandbox/fleet && \
		LOCKSTEP_SERVER="$$server" go run ./cmd/site check || exit; \
	done

check:      ## formatting, vet, staticcheck, generated code, and every claim of the course
	@.ci/get valkey
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	go tool staticcheck ./...
	go tool templ generate >/dev/null 2>&1 && git diff --exit-code --stat -- '*_templ.go'
	go run ./cmd/site check

generate:   ## Go code from the templates
	go tool templ generate

bench:      ## speed, as ratios measured in one run
	@.ci/get valkey nginx wrk
	LOCKSTEP_BENCH=1 go test -p 1 -count=1 -v -run '^TestBench' ./tests/bench ./figures/explore ./sandbox/contained | grep -v '^[=-]'

shots:      ## screenshots of the main states, into shots/
	@.ci/get valkey chromium
	LOCKSTEP_SHOTS=$(CURDIR)/shots go test -count=1 -run TestShots ./tests/browser

audit:      ## Lighthouse, axe, HTML validity and weight of the pages; wants npm and java
	@.ci/get valkey chromium
	LOCKSTEP_AUDIT=1 LOCKSTEP_LIGHTHOUSE=1 go test -p 1 -count=1 -v -timeout 60m -run 'TestValid|TestWeight|TestHead|TestAccess|TestAxe|TestLighthouse' ./tests/pages ./tests/browser
