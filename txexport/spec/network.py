"""The kinds of feed-forward networks of a layer."""

from txexport.spec.feed_forward import DenseAndExpertsSpec, ExpertsSpec, FeedForwardSpec, XieluFeedForwardSpec
from txexport.spec.reduced_attention import ConvolvedFeedForwardSpec
from txexport.spec.rwkv import ChannelMixSpec

NetworkSpec = (
    FeedForwardSpec
    | ExpertsSpec
    | ConvolvedFeedForwardSpec
    | DenseAndExpertsSpec
    | XieluFeedForwardSpec
    | ChannelMixSpec
)
