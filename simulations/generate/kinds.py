"""The four kinds of conversation, after what has been published of real ones.

Chats: Alibaba's to-C sample of Qwen traffic (alibaba-edu/qwen-bailian-usagetraces-anon) has
pauses of 111 s at the median and 719 s at the 90th percentile, and answers of 375 tokens at the
median; half of the first turns and 0.8 of the later ones are followed by another (J. Wang et
al., "KVCache Cache in the Wild", ATC'25). API calls: the to-B sample has no follow-ups, yet more
than half of its prompts' blocks were seen before. Agents pause for the seconds a tool takes;
their contexts are shorter here than real ones, or a trace would not be small.
"""

from __future__ import annotations

from .laws import LogNormal, Returns
from .population import Kind, Templates

CHAT = Kind(
    name="chat",
    type="chat",
    opening=LogNormal(500.0, 1.1),
    answer=LogNormal(375.0, 0.5),
    message=LogNormal(60.0, 1.2),
    law=Returns(0.5, 0.8, LogNormal(111.0, 1.46)),
    templates=Templates(first=0, count=3, tokens=512),
)
AGENT = Kind(
    name="agent",
    type="agent",
    opening=LogNormal(1500.0, 0.8),
    answer=LogNormal(150.0, 0.8),
    message=LogNormal(300.0, 1.0),
    law=Returns(0.95, 0.92, LogNormal(8.0, 1.2)),
    templates=Templates(first=10, count=4, tokens=4096),
)
API = Kind(
    name="api",
    type="api",
    opening=LogNormal(700.0, 0.8),
    answer=LogNormal(40.0, 1.2),
    templates=Templates(first=20, count=40, tokens=1024),
)
BATCH = Kind(
    name="batch",
    type="batch",
    opening=LogNormal(4000.0, 0.6),
    job=100,
    spacing=0.25,
)
UNIQUE = Kind(name="unique", type="unique", opening=LogNormal(2000.0, 0.8))
