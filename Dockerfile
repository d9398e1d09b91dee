# The image of every process of Sandman: docker build -t sandman .
# docs/running-in-containers.md says how it is used, compose.yaml and deploy/kubernetes use it.
ARG NODE_IMAGE=node:24-slim

# The package, exactly as npm would publish it.
FROM ${NODE_IMAGE} AS package
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
COPY scripts scripts
RUN node scripts/install.mjs
COPY bin bin
COPY src src
COPY tsconfig.json tsconfig.build.json README.md LICENSE CHANGELOG.md ./
RUN npm pack && tar -xzf sandman-*.tgz

# What it needs to run, in the versions of the lock file, and what only some need: --build-arg PACKAGES="dockerode e2b"
FROM ${NODE_IMAGE} AS packages
ARG PACKAGES=""
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# --save-prod, and yet nothing saved: else what is also used in development would be left out with it.
RUN npm install --omit=dev --no-save --save-prod --ignore-scripts ${PACKAGES}

FROM ${NODE_IMAGE}
WORKDIR /sandman
COPY --from=packages /build/node_modules node_modules
COPY --from=package /build/package ./
COPY deploy/container/healthcheck.mjs ./
RUN ln -s /sandman/bin/sandman.mjs /usr/local/bin/sandman && install -d -o 1000 -g 1000 /data
ENV SANDMAN_DATA=/data
# The user `node`, as a number: Kubernetes cannot tell of a name that it is not root.
USER 1000:1000
EXPOSE 3000
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 CMD ["node", "/sandman/healthcheck.mjs"]
ENTRYPOINT ["sandman"]
CMD ["--help"]
