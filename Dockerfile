# The site and its Valkey in one image: docker build -t lockstep . && docker run -p 8080:8080 lockstep
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /site ./cmd/site

# Debian-based, unlike the tags that end in -alpine.
FROM valkey/valkey:9
COPY --from=build /site /usr/local/bin/site
# The image's own entry point would start a server with a data directory; the
# site starts one for itself, in memory.
USER valkey
WORKDIR /tmp
ENV LOCKSTEP_ADDR=:8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=2s --start-period=5s CMD ["site", "health"]
ENTRYPOINT ["site"]
CMD ["serve"]
