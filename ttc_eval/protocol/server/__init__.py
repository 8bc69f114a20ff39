"""The TTC-v2 server: any configured model behind the protocol's two streaming surfaces. See docs/serve.md."""
